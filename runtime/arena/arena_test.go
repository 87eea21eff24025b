package arena_test

import (
	"os"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/efactor/efactor/runtime/arena"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func TestArena(t *testing.T) {
	page := os.Getpagesize()
	for _, size := range []int{1, page - 1, page, page + 1, 5 << 20} {
		a, err := arena.New(size)
		require.NoError(t, err)
		b := a.Bytes()
		require.Len(t, b, size)
		require.Equal(t, size, cap(b))
		require.Zero(t, address(b)%uintptr(page))
		for i := 0; i < size; i += 511 {
			require.Zero(t, b[i])
			b[i] = byte(i)
		}
		runtime.GC()
		for i := 0; i < size; i += 511 {
			require.Equal(t, byte(i), b[i])
		}
		require.NoError(t, a.Close())
		require.Nil(t, a.Bytes())
		require.NoError(t, a.Close())
	}
}

func TestSizesAreChecked(t *testing.T) {
	for _, size := range []int{0, -1, 1 << 60} {
		_, err := arena.New(size)
		require.ErrorIs(t, err, arena.ErrSize)
	}
	for _, c := range [][2]int{{0, 1}, {1, 0}, {-1, 5}, {1 << 40, 1 << 30}, {1, 1 << 40}} {
		_, err := arena.NewPool(c[0], c[1])
		require.ErrorIs(t, err, arena.ErrSize, c)
	}
}

// TestPoolModel: blocks in use are distinct, don't overlap, and keep their
// contents; a block that isn't in use can't be put back.
func TestPoolModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 100).Draw(rt, "size")
		blocks := rapid.IntRange(1, 20).Draw(rt, "blocks")
		p, err := arena.NewPool(size, blocks)
		require.NoError(rt, err)
		defer p.Close()
		out := map[int]byte{}
		stamp := byte(0)
		rt.Repeat(map[string]func(*rapid.T){
			"get": func(rt *rapid.T) {
				b, i := p.Get()
				if len(out) == blocks {
					require.Nil(rt, b)
					require.Equal(rt, -1, i)
					return
				}
				require.NotContains(rt, out, i)
				require.Len(rt, b, size)
				require.Equal(rt, size, cap(b))
				stamp++
				out[i] = stamp
				for j := range b {
					b[j] = stamp
				}
			},
			"put": func(rt *rapid.T) {
				i := rapid.IntRange(-1, blocks).Draw(rt, "index")
				_, isOut := out[i]
				err := p.Put(i)
				if !isOut {
					require.ErrorIs(rt, err, arena.ErrNotOut)
					return
				}
				require.NoError(rt, err)
				delete(out, i)
			},
			"": func(rt *rapid.T) {
				require.Equal(rt, blocks-len(out), p.Free())
				for i, stamp := range out {
					for _, b := range p.Block(i) {
						require.Equal(rt, stamp, b)
					}
				}
			},
		})
	})
}

func TestPoolDoesNotAllocate(t *testing.T) {
	p, err := arena.NewPool(64, 8)
	require.NoError(t, err)
	require.Len(t, p.Bytes(), 512)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, i := p.Get()
		if err := p.Put(i); err != nil {
			t.Error(err)
		}
	}))
	require.Nil(t, p.Block(8))
	require.NoError(t, p.Close())
	require.Nil(t, p.Block(0))
	b, i := p.Get()
	require.Nil(t, b)
	require.Equal(t, -1, i)
}

func BenchmarkPool(b *testing.B) {
	p, err := arena.NewPool(4096, 64)
	require.NoError(b, err)
	defer p.Close()
	b.ReportAllocs()
	for b.Loop() {
		_, i := p.Get()
		if p.Put(i) != nil {
			b.Fatal()
		}
	}
}

package arena_test

import (
	"os"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

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
}

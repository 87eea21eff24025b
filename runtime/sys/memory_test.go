package sys_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/sys"
)

// TestCopyOut: CopyOut is copy, on both sides of where it changes its way, for every alignment of a
// word, and where either side is shorter.
func TestCopyOut(t *testing.T) {
	const room = 3*4096 + 64
	src := make([]byte, room)
	for i := range src {
		src[i] = byte(i*7 + i>>8)
	}
	for _, n := range []int{0, 1, 8, 4095, 4096, 4097, 8760, 3 * 4096} {
		for _, at := range [][2]int{{0, 0}, {1, 0}, {0, 3}, {40, 8}, {63, 61}} {
			for _, more := range [][2]int{{0, 0}, {1, 0}, {0, 1}} {
				got, want := make([]byte, room), make([]byte, room)
				from := src[at[1]:][:min(n+more[1], room-at[1])]
				require.Equal(t, copy(want[at[0]:][:n+more[0]], from), sys.CopyOut(got[at[0]:][:n+more[0]], from), "%d %v %v", n, at, more)
				require.True(t, bytes.Equal(want, got), "%d %v %v", n, at, more)
			}
		}
	}
}

func BenchmarkCopyOut(b *testing.B) {
	for _, n := range []int{1024, 4096, 8192} {
		src, dst := make([]byte, n), make([]byte, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				sys.CopyOut(dst, src)
			}
		})
	}
}

var global [4096]byte

// TestInGoHeap: memory of the Go heap is distinguished from all other. If this fails with a new
// release of Go, plain memory is registered for each operation anew (mr.Cache).
func TestInGoHeap(t *testing.T) {
	for _, n := range []int{1, 100, 5000, 1 << 20} {
		p := make([]byte, n)
		require.True(t, sys.InGoHeap(p), n)
		require.True(t, sys.InGoHeap(p[n-1:]), n)
	}
	mapped, err := sys.Anonymous(1<<20, false)
	require.NoError(t, err)
	require.False(t, sys.InGoHeap(mapped))
	require.False(t, sys.InGoHeap(mapped[5000:]))
	require.NoError(t, sys.Unmap(mapped))
	require.False(t, sys.InGoHeap(global[:]))
	require.False(t, sys.InGoHeap(nil))
}

package sys_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/sys"
)

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

//go:build unix

package sys_test

import (
	"fmt"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/runtime/sys"
)

// TestCopyOutFault: memory that cannot be accessed is a panic that the caller can recover from, as of copy.
func TestCopyOutFault(t *testing.T) {
	for _, size := range []int{100, 3 * 4096} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // this goroutine's
			gone, err := sys.Anonymous(4*4096, false)
			require.NoError(t, err)
			defer func() { require.NoError(t, sys.Unmap(gone)) }()
			require.NoError(t, unix.Mprotect(gone, unix.PROT_NONE))
			require.Panics(t, func() { sys.CopyOut(gone, make([]byte, size)) })
			require.Panics(t, func() { sys.CopyOut(make([]byte, size), gone[:size]) })
		})
	}
}

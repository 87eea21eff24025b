//go:build linux

package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/interop/efaemu/memory"
)

func TestMapped(t *testing.T) {
	size := uint64(page)
	mapped := func(s memory.Space, addr, n uint64, write bool) error {
		return s.(interface {
			Mapped(addr, n uint64, write bool) error
		}).Mapped(addr, n, write)
	}
	spaces(t, func(t *testing.T, s memory.Space, base uint64) {
		require.NoError(t, mapped(s, base, size, true))
		require.NoError(t, mapped(s, base+size-1, 1, true))
		require.NoError(t, mapped(s, base, 2*size, false), "two mappings")
		require.ErrorIs(t, mapped(s, base, 2*size, true), memory.ErrFault, "the second is read-only")
		require.ErrorIs(t, mapped(s, base+size, 1, true), memory.ErrFault)
		require.ErrorIs(t, mapped(s, base, 1<<46, false), memory.ErrFault, "with holes")
		require.ErrorIs(t, mapped(s, 8, 8, false), memory.ErrFault)
	})
	pid, base, end := other(t)
	s := memory.Process(pid)
	end()
	require.ErrorIs(t, mapped(s, base, 1, false), memory.ErrGone)
}

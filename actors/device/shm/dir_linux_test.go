//go:build linux

package shm

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// takenParent is a directory where everybody may make others, in which somebody has taken the
// name that we would take: another user if we are root, and else, which is as bad, we
// ourselves with a mode that lets all users in.
func takenParent(t *testing.T) (parent, taken string) {
	t.Helper()
	parent = t.TempDir()
	require.NoError(t, os.Chmod(parent, 0o777|os.ModeSticky))
	taken = filepath.Join(parent, fmt.Sprintf("efactor-%d", os.Geteuid()))
	require.NoError(t, os.Mkdir(taken, 0o755))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(taken, 65534, 65534))
	}
	return parent, taken
}

// TestTakenName: who makes the default directory before us keeps nobody from meeting. All
// that begin at the same time take the same other one, and so do later ones, when the name is
// free again.
func TestTakenName(t *testing.T) {
	parent, taken := takenParent(t)
	const n = 16
	var got [n]string
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i], _ = defaultDir(parent) })
	}
	wg.Wait()
	for _, dir := range got {
		require.Equal(t, got[0], dir)
		require.NotEqual(t, taken, dir)
	}
	require.NoError(t, os.Remove(taken))
	dir, err := defaultDir(parent)
	require.NoError(t, err)
	require.Equal(t, got[0], dir)

	a, err := Open(Config{Dir: dir})
	require.NoError(t, err)
	require.NoError(t, a.Close())
}

// TestFreeName: otherwise the name is the plain one.
func TestFreeName(t *testing.T) {
	parent := t.TempDir()
	for range 2 {
		dir, err := defaultDir(parent)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(parent, fmt.Sprintf("efactor-%d", os.Geteuid())), dir)
	}
	require.NoError(t, os.Chmod(parent, 0o777))
	require.ErrorIs(t, checkParent(parent), ErrDirectory, "anybody may rename what is ours")
	require.NoError(t, os.Chmod(parent, 0o777|os.ModeSticky))
	require.NoError(t, checkParent(parent))
}

//go:build linux

package shm

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// TestFullFileSystem: memory that a file system has not got is an error of the reservation, which says what
// to do on one line. More than all of /dev/shm is asked for, and so nothing is taken from others.
func TestFullFileSystem(t *testing.T) {
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs("/dev/shm", &fs))
	f, err := os.CreateTemp("/dev/shm", "efactor-full-*")
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, os.Remove(f.Name()))
	require.NotZero(t, fs.Blocks, "/dev/shm has a limit")
	err = reserve(int(f.Fd()), int((fs.Blocks+1)*uint64(fs.Bsize)))
	require.ErrorIs(t, err, device.ErrNoMemory)
	require.ErrorIs(t, err, unix.ENOSPC)
	require.ErrorContains(t, err, "--shm-size=")
	require.NotContains(t, err.Error(), "\n")
	require.NoError(t, reserve(int(f.Fd()), 4096))
}

package sys

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestWaitSetAside: a descriptor that is set aside ends no sleep, also if its other end is gone, and counts again
// after Watch.
func TestWaitSetAside(t *testing.T) {
	var p [2]int
	require.NoError(t, unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	defer unix.Close(p[0])
	r, _, err := OpenEvent()
	require.NoError(t, err)
	defer CloseEvent(r)
	var w WaitSet
	require.NoError(t, w.Open(r))
	defer w.Close()
	w.Watch(p[:1], 0)
	require.False(t, w.ready())
	w.SetAside()
	require.NoError(t, unix.Close(p[1]))
	require.False(t, w.ready(), "set aside")
	w.Watch(p[:1], 0)
	require.True(t, w.ready(), "watched")
	w.SetAside()
	require.False(t, w.ready(), "set aside again")
	SignalEvent(r)
	require.True(t, w.Nap(0), "the bell")
}

//go:build linux

package shm

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// TestCutThenDead: the news of a death is how a queue pair finds out that the segment of
// the dead was cut before.
func TestCutThenDead(t *testing.T) {
	c := newCutter(t, true)
	good, v := c.start(true), c.start(true)
	c.greet(good)
	c.greet(v)
	require.True(t, cut(filepath.Join(c.dir, segmentName(v.qpn))))
	v.kill()
	require.Equal(t, v.qpn, c.until(device.OpGone).SrcQPN)
	require.Equal(t, device.StatusBadDestQPN, c.do(device.SendWR{QPN: v.qpn, Payload: []byte("hello")}))
	c.greet(good)
	good.end(t)
}

// TestCutIsClosedOnce: a link that is found to be cut while it is disconnected is closed by
// that. Its bell's descriptor may be another file's at once.
func TestCutIsClosedOnce(t *testing.T) {
	c := newCutter(t, true)
	v := c.start(true)
	c.greet(v)
	p := portOf(t, c.d)
	l := p.links.get(v.qpn)

	// A number that no other descriptor gets, and whose end can be seen.
	var pipe [2]int
	require.NoError(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	defer unix.Close(pipe[0])
	number, err := unix.FcntlInt(uintptr(pipe[1]), unix.F_DUPFD_CLOEXEC, 500)
	require.NoError(t, err)
	require.NoError(t, unix.Close(pipe[1]))
	require.NoError(t, unix.Close(l.doorbell))
	l.doorbell = number

	require.True(t, cut(filepath.Join(c.dir, segmentName(v.qpn))))
	done := make(chan struct{})
	p.deaths.mu.Lock() // which stops it when the doorbell is closed
	go func() {
		defer close(done)
		p.disconnect(l)
	}()
	var b [1]byte
	n, err := unix.Read(pipe[0], b[:])
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, unix.Dup3(pipe[0], number, unix.O_CLOEXEC))
	p.deaths.mu.Unlock()
	<-done
	_, err = unix.FcntlInt(uintptr(number), unix.F_GETFD, 0)
	require.NoError(t, err, "closed twice")
	require.NoError(t, unix.Close(number))
	v.end(t)
}

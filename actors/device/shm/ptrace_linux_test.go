//go:build linux

package shm

import (
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

func init() {
	roles["hidden"] = func(args []string) error {
		if err := hide(); err != nil {
			return err
		}
		return beCut(args)
	}
	roles["hidden later"] = func(args []string) error {
		_, q, _, err := attach(args[0], device.QPConfig{QKey: testQKey})
		if err != nil {
			return err
		}
		if err := hide(); err != nil {
			return err
		}
		say(q.QPN())
		<-orphaned()
		return q.Close()
	}
}

// hide makes the process one whose memory others of its user may not read.
func hide() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// TestHidden: what others may not open is in files.
func TestHidden(t *testing.T) {
	c := newCutter(t, false)
	v := &cutPeer{process: start(t, "hidden", c.dir, false)}
	_, err := fmt.Sscan(v.line(t), &v.key, &v.addr)
	require.NoError(t, err)
	runtime.LockOSThread() // and never unlock: the thread ends with its rights
	require.True(t, dropPtrace(t))
	c.greet(v)
	v.end(t)
}

// TestHiddenLater: a process that hides when its memory is sealed already is unreachable, and
// the log says why.
func TestHiddenLater(t *testing.T) {
	dir := fabricDir(t)
	log := &records{Handler: slog.NewTextHandler(io.Discard, nil)}
	d, err := Open(Config{Dir: dir, Logger: slog.New(log)})
	require.NoError(t, err)
	q, err := d.OpenQP(device.QPConfig{QKey: testQKey})
	require.NoError(t, err)
	ah, err := q.CreateAH(d.Info().GID)
	require.NoError(t, err)
	v := start(t, "hidden later", dir)
	runtime.LockOSThread()
	require.True(t, dropPtrace(t))
	for range 3 {
		wr := &device.SendWR{AH: ah, QPN: v.qpn, QKey: testQKey, Payload: []byte("hello")}
		require.Equal(t, device.StatusUnreachable, statusOf(t, q, wr))
	}
	require.Len(t, log.lines, 1, "once")
	require.Contains(t, log.lines[0], "use Config.Files")
	require.EqualValues(t, 3, d.(Counter).Stats().Denied)
	require.ErrorIs(t, d.(Counter).Stats().Denial, errHidden)
	v.end(t)
	require.NoError(t, q.Close())
	require.NoError(t, d.Close())
}

// TestMayHide: what the kernel says decides, and silence of it does.
func TestMayHide(t *testing.T) {
	const root, user = 0, 1000
	for _, c := range []struct {
		dumpable int
		err      error
		euid     int
		caps     uint64
		want     bool
	}{
		{1, nil, user, 0, false},
		{1, nil, root, 1<<41 - 1, false},
		{1, nil, user, 1 << unix.CAP_NET_RAW, true},
		{0, nil, user, 0, true},
		{2, nil, user, 0, true},
		{0, nil, root, 0, true},
		{-1, unix.EINVAL, user, 0, true},
	} {
		require.Equal(t, c.want, mayHide(c.dumpable, c.err, c.euid, c.caps), "%+v", c)
	}
}

// TestRootsWithOtherCapabilities: processes of root that cannot open each other's memory do not
// take each other for processes of one host.
func TestRootsWithOtherCapabilities(t *testing.T) {
	f := &directory{}
	require.NotEqual(t, f.gidWithin(1, 2, 3), f.gidWithin(1, 2, 4))
	require.NotEqual(t, f.gidWithin(1, 2, 3), f.gidWithin(1, 3, 3))
	require.Equal(t, f.gidWithin(1, 2, 3), f.gidWithin(1, 2, 3))
}

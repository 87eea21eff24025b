//go:build linux

package tcp

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// TestTimerBeforeSleep: a resend that falls due while the queue is being armed keeps it
// awake.
func TestTimerBeforeSleep(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	p := n.port()
	require.True(t, p.WakeAt(clock.System.Now()))
	fd := []unix.PollFd{{Fd: int32(p.wakeFD()), Events: unix.POLLIN}}
	k, err := unix.Poll(fd, 60_000)
	require.NoError(t, err)
	require.Equal(t, 1, k)
	require.False(t, p.Arm())
	require.True(t, p.Arm(), "once")
}

// TestOutOfDescriptors: a queue pair that could not accept does so when it can, though
// it has no other connection.
func TestOutOfDescriptors(t *testing.T) {
	skipPoller(t)
	n := newNode(t, Config{Timeout: shortly}, device.QPConfig{})
	to := n.at()
	c, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: AddrOf(to.gid).AsSlice(), Port: int(to.qpn)})
	require.NoError(t, err)
	defer c.Close()
	p := n.port()

	var was unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	none := was
	none.Cur = 3
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	n.poll()
	deaf := p.acceptor.paused
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
	require.True(t, deaf)
	until(t, "connection", func() bool { return n.d.Stats().Accepted == 1 }, n)
}

// TestOutOfDescriptorsToStrangers: a connection that has not identified itself gives its
// descriptor to a new one, the oldest first, and to a dial of ours.
func TestOutOfDescriptorsToStrangers(t *testing.T) {
	skipPoller(t)
	n := newNode(t, Config{}, device.QPConfig{})
	other := newNode(t, Config{}, device.QPConfig{})
	good := inside(t, n)
	var strangers []*foe
	for i := range 4 {
		strangers = append(strangers, newFoe(t, n, nil))
		until(t, "stranger", func() bool { return n.d.Stats().Accepted == uint64(i+2) }, n)
	}
	until(t, "that they are known to be of our user", func() bool {
		for l := n.port().acceptor.idle.first; l != nil; l = l.idle.behind {
			if l.state != laneAccepted {
				return false
			}
		}
		return true
	}, n)
	late := newFoe(t, n, nil)

	var was unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	none := was
	none.Cur = lowestFree(t)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	n.poll()
	accepted := n.d.Stats().Accepted
	n.send(other.at(), "x")
	left := n.port().acceptor.idle.n
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
	require.EqualValues(t, 6, accepted)
	require.False(t, n.port().acceptor.paused)
	require.Equal(t, 3, left)
	strangers[0].closed()
	strangers[1].closed()
	require.Equal(t, taken, late.reply(late.hello()).verdict)
	require.Equal(t, taken, strangers[3].reply(strangers[3].hello()).verdict)
	good.works()
}

// TestOutOfDescriptorsToDialAgain: a connection that the other side closed before the reply, and that cannot be
// dialed again since there is no descriptor, says nothing about the other side.
func TestOutOfDescriptorsToDialAgain(t *testing.T) {
	skipPoller(t)
	n := newNode(t, Config{}, device.QPConfig{})
	h := newHost(t, n)
	id := n.send(h.at, "later")
	f, _ := h.accept()
	require.NoError(t, f.c.Close())

	var was unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	none := was
	none.Cur = lowestFree(t)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	st := n.status(id)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
	require.Equal(t, device.StatusRNR, st, "later")
}

// lowestFree is the lowest descriptor that is free.
func lowestFree(t *testing.T) uint64 {
	t.Helper()
	fd, err := unix.Dup(0)
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
	return uint64(fd)
}

// TestFloodOfPings: a peer that asks and does not read gets no more memory for the
// answers than an honest queue pair needs.
func TestFloodOfPings(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{SQDepth: 16})
	f := inside(t, n)
	lots := []byte{}
	for range 4096 {
		lots = (&frame{kind: kindPing}).appendTo(lots)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			_ = f.c.SetWriteDeadline(clock.Deadline(5 * time.Second))
			if _, err := f.c.Write(lots); err != nil {
				return
			}
		}
	}()
	most := 0
	until(t, "that it is thrown out", func() bool {
		for _, c := range n.port().conns {
			if c.l != nil {
				most = max(most, len(c.l.out.buf)-c.l.out.head)
			}
		}
		return n.d.Stats().Violations == 1
	}, n)
	require.Less(t, most, 2<<20)
	<-done
}

// TestStatusWaitsAnew: each status waits delayedPolls polls for a packet that it can leave with, also if an earlier status has
// left before its own polls were over.
func TestStatusWaitsAnew(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	f := inside(t, n)
	ah, err := n.q.CreateAH(f.at.gid)
	require.NoError(t, err)
	l := n.port().remotes[f.at].accepted.lanes[0]
	arrive := func(token uint64) {
		f.frame(frame{kind: kindSend, length: 3, token: token, qkey: 5}, []byte("abc")...)
		until(t, "that it is here", func() bool { return arrived(l, sendLen+3) })
		n.port().skip = 0
		n.poll()
		require.Len(t, n.recvs, int(token))
		require.Equal(t, baseLen, l.out.size)
	}
	arrive(1)
	require.NoError(t, n.q.PostSend(&device.SendWR{AH: ah, QPN: f.at.qpn, QKey: 9, ID: 1, Payload: []byte("answer")}))
	n.q.Doorbell()
	require.Zero(t, l.out.size)
	for range delayedPolls - 2 {
		n.poll()
	}
	arrive(2)
	for range delayedPolls {
		require.Equal(t, baseLen, l.out.size)
		n.poll()
	}
	n.poll()
	require.Zero(t, l.out.size)
	require.False(t, l.statusQueued)
}

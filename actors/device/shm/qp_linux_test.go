//go:build linux

package shm

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

func init() { roles["guest"] = guest }

// guest is a process with a GID of its own, that of the host named. It says its queue
// pair's number, sends one packet to the test's, and receives until it ends.
func guest(args []string) error {
	d, err := Open(Config{Dir: args[0], GID: HostGID(args[1])})
	if err != nil {
		return err
	}
	q, err := d.OpenQP(device.QPConfig{QKey: testQKey, RNRRetry: 7})
	if err != nil {
		return err
	}
	ah, err := q.CreateAH(HostGID("home"))
	if err != nil {
		return err
	}
	for i := range q.RecvSlots() {
		q.PostRecv([]int32{int32(i)})
	}
	if args[2] == "speak" {
		if err := q.PostSend(&device.SendWR{AH: ah, QPN: testQPN, Header: []byte(args[1])}); err != nil {
			return err
		}
	}
	say(q.QPN())
	<-orphaned()
	return nil
}

// openHost opens a device with a host's GID, and a queue pair.
func openHost(t testing.TB, dir, name string, qc device.QPConfig) device.QP {
	t.Helper()
	d, err := Open(Config{Dir: dir, GID: HostGID(name)})
	require.NoError(t, err)
	require.Equal(t, HostGID(name), d.Info().GID)
	q, err := d.OpenQP(qc)
	require.NoError(t, err)
	portsBehind.Store(q, portOf(t, d))
	t.Cleanup(func() {
		portsBehind.Delete(q)
		require.NoError(t, q.Close())
		require.NoError(t, d.Close())
	})
	for i := range q.RecvSlots() {
		q.PostRecv([]int32{int32(i)})
	}
	return q
}

// next polls until something comes that is no end of a send.
func next(q device.QP) (got device.Completion) {
	for got.Op == 0 {
		var c [1]device.Completion // what is behind it stays
		if q.Poll(c[:]) == 1 && c[0].Op != device.OpSend {
			got = c[0]
		}
	}
	return got
}

// Processes of one directory may have GIDs of their own. A packet shows its sender's,
// and news of a death shows the GID of the dead, whether it was known as a sender, from
// its entry, or as a receiver, from its segment.
func TestHosts(t *testing.T) {
	dir := fabricDir(t)
	q := openHost(t, dir, "home", device.QPConfig{QPN: testQPN})
	for _, name := range []string{"near", "far"} {
		gid := HostGID(name)
		speaker := start(t, "guest", dir, name, "speak")
		got := next(q)
		require.Equal(t, device.Completion{
			ID: got.ID, Op: device.OpRecv, Len: len(name), AH: device.UnknownAH, SrcQPN: speaker.qpn, SrcGID: gid,
		}, got)
		require.Equal(t, name, string(q.RecvBytes(int(got.ID))[:got.Len]))

		listener := start(t, "guest", dir, name, "listen")
		ah, err := q.CreateAH(gid)
		require.NoError(t, err)
		require.Equal(t, device.StatusOK, statusOf(t, q, &device.SendWR{AH: ah, QPN: listener.qpn, QKey: testQKey}))
		for _, wrong := range []device.GID{HostGID("home"), HostGID("nobody")} {
			other, err := q.CreateAH(wrong)
			require.NoError(t, err)
			for range 2 {
				wr := &device.SendWR{AH: other, QPN: listener.qpn, QKey: testQKey}
				require.Equal(t, device.StatusBadDestQPN, statusOf(t, q, wr))
			}
		}
		require.NoError(t, q.DestroyAH(ah))
		for _, p := range []*process{speaker, listener} {
			p.kill()
			got := next(q)
			require.Equal(t, device.OpGone, got.Op)
			require.Equal(t, p.qpn, got.SrcQPN)
			require.Equal(t, gid, got.SrcGID)
			require.Equal(t, device.UnknownAH, got.AH)
			require.Equal(t, uint32(testQKey), got.QKey)
		}
	}
}

// Queue pair numbers are the directory's, for all GIDs.
func TestHostsShareNumbers(t *testing.T) {
	dir := fabricDir(t)
	openHost(t, dir, "a", device.QPConfig{QPN: testQPN})
	d, err := Open(Config{Dir: dir, GID: HostGID("b")})
	require.NoError(t, err)
	_, err = d.OpenQP(device.QPConfig{QPN: testQPN})
	require.ErrorIs(t, err, device.ErrQPNInUse)
	require.NoError(t, d.Close())
	require.Equal(t, HostGID("a"), HostGID("a"))
	require.NotEqual(t, HostGID("a"), HostGID("b"))
	require.Equal(t, []byte{0xfe, 0x80, 0, 0, 0, 0, 0, 0}, append([]byte{}, gidHead(HostGID("a"))...))
}

func gidHead(g device.GID) []byte { return g[:8] }

// A link has the handle by which it was used lately; it drops a handle that comes to
// mean another GID; other links are found by their GID.
func TestLinkHandles(t *testing.T) {
	dir := fabricDir(t)
	b := openHost(t, dir, "b", device.QPConfig{})
	c := openHost(t, dir, "c", device.QPConfig{})
	q := openHost(t, dir, "a", device.QPConfig{})
	p := portBehind(q)
	route := func(ah device.AH, name string) { require.NoError(t, p.Route(ah, HostGID(name))) }
	send := func(ah device.AH, to device.QP) device.Status {
		return p.Send(&device.SendWR{AH: ah, QPN: to.QPN(), Header: []byte("x")}, 0)
	}
	route(3, "b")
	require.Equal(t, device.StatusOK, send(3, b))
	l := p.links.get(b.QPN())
	require.Equal(t, device.AH(3), l.ah)
	p.Unroute(3)
	route(3, "b") // the same again
	require.Equal(t, device.AH(3), l.ah)
	require.Equal(t, device.StatusOK, send(3, b))
	p.Unroute(3)
	route(3, "c")
	require.Equal(t, device.UnknownAH, l.ah)
	require.Equal(t, device.StatusBadDestQPN, send(3, b))
	require.Equal(t, device.StatusOK, send(3, c))
	route(0, "b")
	require.Equal(t, device.StatusOK, send(0, b))
	require.Same(t, l, p.links.get(b.QPN()), "nothing was mapped anew")
	require.Equal(t, device.AH(0), l.ah)
	require.Equal(t, device.StatusBadDestQPN, send(0, c))
}

// TestHostID: a host has a name where the kernel does not say which boot it is.
func TestHostID(t *testing.T) {
	name, err := os.Hostname()
	require.NoError(t, err)
	at := filepath.Join(t.TempDir(), "boot_id")
	require.Equal(t, name+" ", string(hostID(at)))
	require.NoError(t, os.WriteFile(at, []byte("b\n"), 0o600))
	require.Equal(t, "b\n", string(hostID(at)))
}

// A write with immediate reports the bytes written and their requester, after the
// data, and takes a slot for it.
func TestWriteImmediate(t *testing.T) {
	c := newCouple(t, maxRDMA, remoteAll)
	back, err := c.b.CreateAH(portBehind(c.a).gid)
	require.NoError(t, err)
	take := func(n int) (list []device.Completion) {
		for len(list) < n {
			pollOnce(c.b, func(e device.Completion) {
				list = append(list, e)
				c.b.PostRecv([]int32{int32(e.ID)})
			})
		}
		return list
	}
	for i, n := range []int{0, 1, 100, maxRDMA} {
		for round := range 20 { // more than there are slots
			imm := uint32(i<<30 | round)
			wr := c.wr(device.WRWrite, parcel(make([]byte, max(n, 16)), uint64(round))[:n], 0)
			wr.HasImm, wr.Imm = true, imm
			c.ends(wr, device.StatusOK)
			got := take(1)[0]
			require.Less(t, got.ID, uint64(2))
			got.ID = 0
			require.Equal(t, device.Completion{
				Op: device.OpWritten, HasImm: true, Imm: imm, Len: n, AH: back, SrcQPN: c.a.QPN(),
			}, got)
			require.Equal(t, wr.Payload, c.mr.Bytes()[:n])
		}
	}
	for _, whole := range []uint32{99, 100, 101, math.MaxUint32} { // the last part of a write that was cut
		wr := c.wr(device.WRWrite, make([]byte, 100), 0)
		wr.HasImm, wr.Whole = true, whole
		c.ends(wr, device.StatusOK)
		require.Equal(t, max(100, int(whole)), take(1)[0].Len)
	}
	wr := c.wr(device.WRWrite, nil, 0)
	wr.HasImm = true
	send := &device.SendWR{AH: c.ah, QPN: c.b.QPN(), QKey: testQKey, Payload: []byte("packet")}
	c.ends(send, device.StatusOK)
	c.ends(wr, device.StatusOK)
	c.ends(wr, device.StatusRNR)
	c.ends(send, device.StatusRNR)
	got := take(2)
	require.ElementsMatch(t, []device.Op{device.OpRecv, device.OpWritten}, []device.Op{got[0].Op, got[1].Op})
}

// A note that makes no sense is not believed, and costs no slot.
func TestWrongNote(t *testing.T) {
	c := newCouple(t, 1, device.RemoteWrite)
	wr := c.wr(device.WRWrite, nil, 0)
	wr.HasImm = true
	c.ends(wr, device.StatusOK)
	p, l := portBehind(c.b), portBehind(c.a).links.get(c.b.QPN())
	for p.rx.head == 0 {
		pollOnce(c.b, func(e device.Completion) { c.b.PostRecv([]int32{int32(e.ID)}) })
	}
	for i, n := range []struct {
		m    word
		note []byte
	}{
		{written, make([]byte, noteBytes)}, // no immediate
		{written | withImm, nil},
		{written | withImm, make([]byte, noteBytes-1)},
		{written | withImm, make([]byte, noteBytes+1)},
		{written | withImm, bytes.Repeat([]byte{255}, noteBytes)},
	} {
		require.Equal(t, sent, l.send(&device.SendWR{Header: n.note}, n.m))
		for p.bad == uint64(i) {
			pollOnce(c.b, func(device.Completion) { t.Fatal("believed") })
		}
	}
	c.ends(wr, device.StatusOK)
	c.ends(wr, device.StatusOK)
	c.ends(wr, device.StatusRNR)
}

// The immediate of a packet comes with packets of every size.
func TestSendImmediate(t *testing.T) {
	c := newCouple(t, 1, 0)
	for n := range 300 {
		wr := &device.SendWR{
			AH: c.ah, QPN: c.b.QPN(), QKey: testQKey, HasImm: n%3 > 0, Imm: ^uint32(n),
			Header: parcel(make([]byte, max(n, 16)), uint64(n))[:n],
		}
		c.ends(wr, device.StatusOK)
		for got := false; !got; {
			pollOnce(c.b, func(e device.Completion) {
				got = true
				require.Equal(t, wr.HasImm, e.HasImm)
				if e.HasImm {
					require.Equal(t, wr.Imm, e.Imm)
				}
				require.Equal(t, string(wr.Header), string(c.b.RecvBytes(int(e.ID))[:e.Len]))
				c.b.PostRecv([]int32{int32(e.ID)})
			})
		}
	}
}

// A process writes garbage all over a segment while others send to it and its owner
// receives. No process panics or spins; when it is over, and the senders of that
// time have gone, everything works and every slot is there.
func TestGarbage(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 20 {
		dir := fabricDir(t)
		q, ah := mustAttach(t, dir, device.QPConfig{QPN: testQPN, RQDepth: 8})
		p := portBehind(q)
		a, toQ := mustAttach(t, dir, device.QPConfig{RNRRetry: 1})
		ring := p.rx.ring
		for range 300 {
			switch rng.IntN(8) {
			case 0:
				ring.ctl.tail.Store(rng.Uint64())
			case 1:
				ring.ctl.posted.Store(rng.Uint64())
			case 2:
				ring.ctl.state.Store(uint32(rng.IntN(6)))
			case 3:
				ring.post(uint64(rng.IntN(ring.cells))).Store(rng.Uint64())
			case 4:
				k := kind(rng.IntN(4))
				ring.post(uint64(rng.IntN(ring.cells))).Store(uint64(makeWord(k, ring.lap(p.rx.head), 0, uint16(rng.IntN(8)), rng.IntN(2))))
			case 5:
				k := kind(rng.IntN(4))
				flags := word(rng.Uint32()) & (written | withImm)
				ring.cell[rng.IntN(ring.cells)].word.Store(uint64(flags | makeWord(k, ring.lap(p.rx.head), uint16(rng.IntN(1<<16)), uint16(rng.IntN(8)), rng.IntN(2))))
			case 6:
				ring.senders[rng.IntN(3)].who.Store(rng.Uint64())
			case 7:
				ring.senders[rng.IntN(3)].flags.Store(rng.Uint32())
			}
			wr := device.SendWR{AH: toQ, QPN: testQPN, Payload: make([]byte, rng.IntN(300))}
			_ = a.PostSend(&wr) // a full queue is fine
			pollOnce(a, func(device.Completion) {})
			pollOnce(q, func(e device.Completion) {
				if e.Op == device.OpRecv || e.Op == device.OpWritten {
					require.LessOrEqual(t, e.Len, math.MaxUint32)
					q.PostRecv([]int32{int32(e.ID)})
				}
			})
			if rng.IntN(10) == 0 {
				p.dev.watch.look()
			}
			if rng.IntN(10) == 0 && q.Arm() {
				p.dev.watch.look()
			}
		}
		require.NoError(t, a.Close())
		_ = ah
		for i := range ring.senders[:4] { // whatever the garbage made of it
			ring.senders[i].who.And(1)
		}
		for range 3 {
			p.dev.watch.look()
			for range 2 * patienceOne {
				pollOnce(q, func(e device.Completion) {
					if e.Op == device.OpRecv || e.Op == device.OpWritten {
						q.PostRecv([]int32{int32(e.ID)})
					}
				})
			}
		}
		posts := len(p.rx.later)
		for i := range p.rx.own {
			if p.rx.own[i].hasSlot() {
				posts++
			}
		}
		require.Equal(t, 8, posts)
		b, toQ := mustAttach(t, dir, device.QPConfig{RNRRetry: 7})
		for range 50 {
			got := false
			wr := device.SendWR{AH: toQ, QPN: testQPN, Payload: []byte("after the storm")}
			require.NoError(t, b.PostSend(&wr))
			for !got {
				pollOnce(b, func(device.Completion) {})
				pollOnce(q, func(e device.Completion) {
					if e.Op == device.OpRecv {
						got = string(q.RecvBytes(int(e.ID))[:e.Len]) == "after the storm"
						q.PostRecv([]int32{int32(e.ID)})
					}
				})
			}
		}
	}
}

func readable(t testing.TB, fds []int) bool {
	t.Helper()
	var ps []unix.PollFd
	for _, fd := range fds {
		ps = append(ps, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	n, err := unix.Poll(ps, 0)
	require.NoError(t, err)
	return n > 0
}

// The news of a death wakes a receiver whose flag is down, though no sender has rung.
func TestWakeLost(t *testing.T) {
	q, _ := mustAttach(t, fabricDir(t), device.QPConfig{})
	p := portBehind(q)
	require.True(t, q.Arm())
	require.True(t, p.rx.ctl.state.CompareAndSwap(p.rx.sleep(), running))
	require.False(t, readable(t, q.FDs()))
	p.reportDeath(makeIdent(77, 77))
	require.True(t, readable(t, q.FDs()))
	pollOnce(q, func(device.Completion) {})
	require.False(t, readable(t, q.FDs()), "Poll drains")
}

// TestDeathMeetsSleep: a death is reported while the queue pair goes to sleep and wakes, which the race detector watches.
func TestDeathMeetsSleep(t *testing.T) {
	q, _ := mustAttach(t, fabricDir(t), device.QPConfig{})
	p := portBehind(q)
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		p.reportDeath(makeIdent(77, 77))
	}()
	for heard := false; !heard; pollOnce(q, func(device.Completion) {}) {
		q.Arm()
		select {
		case <-reported:
			heard = true
		default:
		}
	}
}

// TestDrainEnds: a process that writes to the bell without end does not hold up the one that empties it.
func TestDrainEnds(t *testing.T) {
	var b [2]int
	require.NoError(t, unix.Pipe2(b[:], unix.O_NONBLOCK|unix.O_CLOEXEC))
	defer unix.Close(b[0])
	defer unix.Close(b[1])
	flood := make([]byte, maxSenders+1)
	_, err := unix.Write(b[1], flood)
	require.NoError(t, err)
	drain(b[0])
	n, err := unix.Read(b[0], flood)
	require.NoError(t, err, "it has read on as long as there was something")
	require.Positive(t, n)
}

// TestWakeOfABug: a sleeper whose flag was overwritten is woken all the same.
func TestWakeOfABug(t *testing.T) {
	dir := fabricDir(t)
	q, _ := mustAttach(t, dir, device.QPConfig{QPN: testQPN})
	other, ah := mustAttach(t, dir, device.QPConfig{})
	wr := &device.SendWR{AH: ah, QPN: testQPN}
	require.Equal(t, device.StatusOK, statusOf(t, other, wr))
	pollOnce(q, func(device.Completion) {})
	require.True(t, q.Arm())
	pollOnce(q, func(device.Completion) {}) // it rang when it entered
	require.True(t, q.Arm())
	portBehind(q).rx.ctl.state.Store(77)
	require.False(t, readable(t, q.FDs()))
	require.Equal(t, device.StatusOK, statusOf(t, other, wr))
	require.True(t, readable(t, q.FDs()))
}

// A sender that stands still between claim and publish does not keep the others'
// packets from the receiver, and its own arrives when it goes on.
func TestSlowSender(t *testing.T) {
	dir := fabricDir(t)
	q, _ := mustAttach(t, dir, device.QPConfig{QPN: testQPN, RQDepth: 4})
	slow, ah := mustAttach(t, dir, device.QPConfig{})
	wr := &device.SendWR{AH: ah, QPN: testQPN}
	require.Equal(t, device.StatusOK, statusOf(t, slow, wr)) // it is known now
	fast, _ := mustAttach(t, dir, device.QPConfig{RNRRetry: 7})

	l := portBehind(slow).links.get(testQPN)
	op := l.begin(&device.SendWR{Header: []byte("late")}, 0)
	for op.at != stepCopy {
		l.step(&op)
	}
	var got []string
	take := func(e device.Completion) {
		got = append(got, string(q.RecvBytes(int(e.ID))[:e.Len]))
		q.PostRecv([]int32{int32(e.ID)})
	}
	for range 100 {
		require.NoError(t, fast.PostSend(&device.SendWR{AH: ah, QPN: testQPN, Payload: []byte("fast")}))
		for n := len(got); len(got) == n; {
			pollOnce(fast, func(device.Completion) {})
			pollOnce(q, take)
		}
	}
	for op.at != stepOver {
		l.step(&op)
	}
	for got[len(got)-1] != "late" {
		pollOnce(q, take)
	}
}

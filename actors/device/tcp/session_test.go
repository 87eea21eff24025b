//go:build linux

package tcp

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// host is a foe that listens.
type host struct {
	t    *testing.T
	n    *node
	l    *net.TCPListener
	at   address
	qkey uint32
}

func newHost(t *testing.T, n *node) *host {
	t.Helper()
	ip := nextHost()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: ip.AsSlice()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return &host{t: t, n: n, l: l, at: address{GIDOf(ip), uint16(l.Addr().(*net.TCPAddr).Port)}, qkey: 9}
}

// accept takes the next connection and its preamble, and says nothing yet.
func (h *host) accept() (*foe, preamble) {
	h.t.Helper()
	f := &foe{t: h.t, n: h.n, c: h.bare(), at: h.at, next: 100, greeted: true}
	f.say(appendGreeting(nil, taken))
	var p preamble
	require.NoError(h.t, p.parse(f.want(preambleLen)))
	require.Equal(h.t, h.n.at(), p.from)
	require.Equal(h.t, h.at, p.to)
	require.EqualValues(h.t, 5, p.qkey)
	return f, p
}

// bare takes the next connection.
func (h *host) bare() (c net.Conn) {
	h.t.Helper()
	until(h.t, "connection", func() bool {
		_ = h.l.SetDeadline(clock.Deadline(time.Millisecond))
		var err error
		c, err = h.l.Accept()
		return err == nil
	}, h.n)
	h.t.Cleanup(func() { _ = c.Close() })
	return c
}

// take accepts a session with its lane 0 and the other one, after a send made n dial.
func (h *host) take() (lane0, lane1 *foe, p preamble) {
	h.t.Helper()
	lane0, p = h.accept()
	h.agree(lane0, p, taken)
	lane1, q := h.accept()
	require.EqualValues(h.t, 1, q.lane)
	require.Equal(h.t, p.session, q.session)
	h.agree(lane1, q, taken)
	return lane0, lane1, p
}

func (h *host) agree(f *foe, p preamble, v verdict) {
	f.say((&preamble{
		reply: true, verdict: v, lane: p.lane, lanes: p.lanes, mtu: p.mtu, session: p.session,
		from: h.at, to: p.from, keyed: true, qkey: h.qkey,
	}).appendTo(nil))
}

// TestSessionDialed: a dialer may send requests right after the preamble, and goes on
// over the session.
func TestSessionDialed(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	h := newHost(t, n)
	id := n.send(h.at, "first")
	f, _, p := h.take()
	require.EqualValues(t, DefaultLanes, p.lanes)
	fr := f.answer()
	require.Equal(t, kindSend, fr.kind)
	require.Equal(t, "first", string(f.want(fr.length)))
	require.Empty(t, n.sends)
	f.frame(frame{kind: kindStatus, token: fr.token})
	require.Equal(t, device.StatusOK, n.status(id))
	f.works() // its requests go the other way
}

func TestDialRefused(t *testing.T) {
	for v, want := range map[verdict]device.Status{
		wrongVersion: device.StatusMismatch, wrongPlace: device.StatusBadDestQPN, wrongMTU: device.StatusMismatch,
		wrongSession: device.StatusBadDestQPN, wrongPeer: device.StatusUnknownPeer, tooMany: device.StatusUnreachable,
	} {
		n := newNode(t, Config{}, device.QPConfig{})
		h := newHost(t, n)
		id := n.send(h.at, "hello")
		f, p := h.accept()
		h.agree(f, p, v)
		require.Equal(t, want, n.status(id), verdictText[v])
		require.Empty(t, n.gone)
	}
	lies := map[string]struct {
		change func(*host, *preamble)
		want   device.Status
	}{
		"another session": {func(_ *host, p *preamble) { p.session++ }, device.StatusBadDestQPN},
		"another lane":    {func(_ *host, p *preamble) { p.lane++ }, device.StatusBadDestQPN},
		"another mtu":     {func(_ *host, p *preamble) { p.mtu++ }, device.StatusMismatch},
		"another port":    {func(h *host, _ *preamble) { h.at.qpn++ }, device.StatusBadDestQPN},
		"for another":     {func(_ *host, p *preamble) { p.from.qpn++ }, device.StatusBadDestQPN},
	}
	for name, lie := range lies {
		n := newNode(t, Config{}, device.QPConfig{})
		h := newHost(t, n)
		id := n.send(h.at, "hello")
		f, p := h.accept()
		lie.change(h, &p)
		h.agree(f, p, taken)
		require.Equal(t, lie.want, n.status(id), name)
	}
	n := newNode(t, Config{}, device.QPConfig{})
	h := newHost(t, n)
	id := n.send(h.at, "hello")
	f, _ := h.accept()
	f.say(make([]byte, preambleLen))
	require.Equal(t, device.StatusBadDestQPN, n.status(id), "no preamble")
}

// TestLostAndFound: a session that breaks is dialed again. Requests in progress have
// ended and are not sent again, and no queue pair is reported gone.
func TestLostAndFound(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	h := newHost(t, n)
	id := n.send(h.at, "lost")
	f, lane1, _ := h.take()
	require.Equal(t, kindSend, f.answer().kind)
	require.NoError(t, f.c.Close())
	require.Equal(t, device.StatusAbort, n.status(id))
	lane1.closed()
	again, _, p := h.take()
	require.Zero(t, p.last)
	id = n.send(h.at, "found")
	fr := again.answer()
	require.Equal(t, "found", string(again.want(fr.length)))
	again.frame(frame{kind: kindStatus, token: fr.token})
	require.Equal(t, device.StatusOK, n.status(id))
	require.Empty(t, n.gone)
	require.EqualValues(t, 1, n.d.Stats().Broken)
}

// TestLostToAnother: another queue pair is there now.
func TestLostToAnother(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	h := newHost(t, n)
	n.send(h.at, "lost")
	f, _, _ := h.take()
	require.NoError(t, f.c.Close())
	h.qkey = 10
	h.take()
	until(t, "death", func() bool { return len(n.gone) == 1 }, n)
	require.EqualValues(t, 9, n.gone[0].QKey)
}

// TestLostForGood: a host that resets every connection has ended, too; and one that is
// not even dialed, since nothing was ever sent, is not reported.
func TestLostForGood(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	h := newHost(t, n)
	n.send(h.at, "lost")
	f, _, _ := h.take()
	require.NoError(t, f.c.Close())
	for range maxResets {
		f, _ := h.accept()
		require.NoError(t, f.c.(*net.TCPConn).SetLinger(0))
		require.NoError(t, f.c.Close())
	}
	until(t, "death", func() bool { return len(n.gone) == 1 }, n)
	until(t, "no connections", func() bool { return len(n.port().free) == len(n.port().conns) }, n)

	quiet := newFoe(t, n, nil)
	quiet.reply(quiet.hello())
	require.NoError(t, quiet.c.Close())
	until(t, "no connections", func() bool { return n.port().acceptor.accepted == 0 }, n)
	require.Len(t, n.gone, 1)
}

// TestNewSessionEndsTheOld: frames on an old session after a new one began are not
// taken, even if they arrived before they were read.
func TestNewSessionEndsTheOld(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	old := inside(t, n)
	old.works()
	for _, qkey := range []uint32{9, 10} { // the same process, and a new one
		next := newFoe(t, n, old)
		p := next.hello()
		p.session, p.qkey = uint64(2000+qkey), qkey
		require.Equal(t, taken, next.reply(p).verdict)
		old.closed()
		next.works()
		old = next
	}
	require.Len(t, n.gone, 1)
	require.EqualValues(t, 9, n.gone[0].QKey)

	again := newFoe(t, n, old)
	p := again.hello()
	p.session = 2010
	require.Equal(t, wrongSession, again.reply(p).verdict, "the same number")
}

// TestLateSession: a connection that was delayed until its dialer had given it up and
// dialed again is not taken, and neither are its frames.
func TestLateSession(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	f := inside(t, n)
	f.works()
	late := newFoe(t, n, f)
	p := late.hello()
	p.session--
	late.say((&frame{kind: kindSend, length: 1, token: 1, qkey: 5}).appendTo(p.appendTo(nil)))
	var r preamble
	require.NoError(t, r.parse(late.want(preambleLen)))
	require.Equal(t, wrongSession, r.verdict)
	late.closed()
	f.works()

	h := newHost(t, n)
	var last uint64
	for range 3 {
		n.send(h.at, "x")
		f, _, p := h.take()
		require.True(t, follows(p.session, last))
		require.False(t, follows(last, p.session) && last != 0)
		last = p.session
		f.frame(frame{kind: kindBye})
		require.NoError(t, f.c.Close())
		until(t, "the end", func() bool { return n.port().remotes[h.at].cur == nil }, n)
	}
}

// TestLaneOfAnother: a lane joins a session of the same queue pair only.
func TestLaneOfAnother(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	f := inside(t, n)
	other, own := newFoe(t, n, f), newFoe(t, n, f)
	p := own.hello()
	p.lane, p.qkey = 1, 10
	require.Equal(t, wrongSession, other.reply(p).verdict)
	p.qkey = 9
	require.Equal(t, taken, own.reply(p).verdict)

	h := newHost(t, n)
	n.send(h.at, "x")
	lane0, p := h.accept()
	h.agree(lane0, p, taken)
	lane1, p := h.accept()
	h.qkey++
	h.agree(lane1, p, taken)
	lane1.closed()
	require.Nil(t, n.port().remotes[h.at].dialed.lanes[1])
	f.works()
}

// TestCrossing: when both dial, the other side's report of the session that we dialed
// decides whether it goes on.
func TestCrossing(t *testing.T) {
	for _, c := range []struct {
		name       string
		up         bool // ours was taken
		last       bool // the other says so
		alive      bool // and that it goes on
		goesOn     bool
		otherQKey  bool
		reportGone bool
	}{
		{name: "it has not seen ours", goesOn: true},
		{name: "it has ours", up: true, last: true, alive: true, goesOn: true},
		{name: "it had ours", up: true, last: true},
		{name: "it had ours, which we do not know yet", last: true},
		{name: "it forgot ours", up: true},
		{name: "it is another", up: true, last: true, alive: true, otherQKey: true, reportGone: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t, Config{}, device.QPConfig{})
			h := newHost(t, n)
			id := n.send(h.at, "ours")
			f, p := h.accept()
			if c.up {
				h.agree(f, p, taken)
				until(t, "session", func() bool { return n.port().remotes[h.at].dialed.up }, n)
			}
			theirs := newFoe(t, n, f)
			q := theirs.hello()
			if c.last {
				q.last = p.session
			}
			if q.alive = c.alive; c.otherQKey {
				q.qkey++
			}
			require.Equal(t, taken, theirs.reply(q).verdict)
			theirs.works()
			if !c.goesOn {
				require.Equal(t, device.StatusAbort, n.status(id))
				require.Equal(t, c.reportGone, len(n.gone) == 1)
				return
			}
			require.Empty(t, n.sends)
			if !c.up {
				h.agree(f, p, taken)
			}
			fr := f.answer()
			require.Equal(t, "ours", string(f.want(fr.length)))
			f.frame(frame{kind: kindStatus, token: fr.token})
			require.Equal(t, device.StatusOK, n.status(id))
			f.works()
		})
	}
}

// TestLateConnection: a preamble of a process that has ended meanwhile does not end the session
// of the one that has its port now.
func TestLateConnection(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	dead := newFoe(t, n, nil)
	until(t, "connection", func() bool { dead.hear(); return dead.greeted }, n)
	now := newFoe(t, n, dead)
	require.Equal(t, taken, now.reply(now.hello()).verdict)
	now.works()
	late := dead.hello()
	late.session, late.qkey = 1<<40, 10
	dead.say(late.appendTo(nil))
	require.NoError(t, dead.c.Close())
	until(t, "that it is refused", func() bool { return n.d.Stats().Refused == 1 && n.port().acceptor.accepted == 1 }, n)
	now.works()
	require.Empty(t, n.gone)
}

// TestFarewell: answers on other lanes count although the bye arrived first.
func TestFarewell(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	h := newHost(t, n)
	send := n.send(h.at, "x")
	f, lane1, _ := h.take()
	until(t, "lane 1", func() bool { return n.port().remotes[h.at].dialed.bulk().no == 1 }, n)
	wr := n.wr(h.at)
	wr.Kind, wr.Payload, wr.RKey = device.WRWrite, make([]byte, 100_000), 1
	write := n.post(wr)
	token := f.answer().token
	lane1.want(writeLen + 100_000)
	lost := n.send(h.at, "y")
	f.frame(frame{kind: kindStatus, token: token})
	f.frame(frame{kind: kindBye})
	require.Equal(t, device.StatusOK, n.status(send))
	require.Len(t, n.sends, 1)
	lane1.frame(frame{kind: kindStatus, token: n.port().writeToken()})
	lane1.frame(frame{kind: kindBye})
	require.Equal(t, device.StatusOK, n.status(write))
	require.Equal(t, device.StatusBadDestQPN, n.status(lost))
	require.True(t, len(n.gone) == 1 && n.gone[0].Left)
	require.Zero(t, n.d.Stats().Broken)
}

// TestFarewellOfOne: a peer that has two sessions with us says bye on each; answers on the
// other one still count.
func TestFarewellOfOne(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	h := newHost(t, n)
	id := n.send(h.at, "ours")
	f, lane1, p := h.take()
	token := f.answer().token
	theirs := newFoe(t, n, f)
	q := theirs.hello()
	q.last, q.alive = p.session, true
	require.Equal(t, taken, theirs.reply(q).verdict)
	theirs.works()
	theirs.frame(frame{kind: kindBye})
	theirs.closed()
	require.Empty(t, n.sends)
	f.frame(frame{kind: kindStatus, token: token})
	require.Equal(t, device.StatusOK, n.status(id))
	lost := n.send(h.at, "late")
	f.frame(frame{kind: kindBye})
	lane1.frame(frame{kind: kindBye})
	require.Equal(t, device.StatusBadDestQPN, n.status(lost))
	require.True(t, len(n.gone) == 1 && n.gone[0].Left)
	require.Zero(t, n.d.Stats().Broken)
}

// writeToken finds our write that is under way, by its lane.
func (p *port) writeToken() uint64 {
	for i := range p.reqs.list {
		if l := p.reqs.list[i].lane; l != nil && l.no != 0 {
			return p.reqs.list[i].token
		}
	}
	return 0
}

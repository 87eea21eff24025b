package peer

import (
	"errors"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// startWatch begins to look after a peer with operations in progress: one whose
// device does not answer for PeerTimeout has failed.
func (p *Peer) startWatch() {
	if p.watchMsg.timer.Active() || p.link.Err != nil {
		return
	}
	p.link.watched = true
	p.heardFrom()
	p.watchAgain(p.env.Config.ProbeAfter)
}

func (p *Peer) watchAgain(d time.Duration) {
	p.watchMsg.due = p.env.now().Add(d)
	p.env.Sh.StartTimer(&p.watchMsg.timer, d, p.link.Peer, &p.watchMsg)
}

// overslept is by how much a tick may be late before it says more about us than
// about the peer: this process was stopped, or starved of processors.
const overslept = 500 * time.Millisecond

func (p *Peer) onWatch() {
	if !p.link.Busy() && p.lineHead == nil || p.link.Err != nil {
		p.link.watched = false
		return
	}
	c := &p.env.Config
	if p.env.now().Sub(p.watchMsg.due) > overslept {
		p.heardFrom() // what it sent meanwhile has yet to be looked at
		p.link.excuse()
	}
	if p.link.putOff > 0 || p.env.Q.Throttled() {
		p.link.excuse() // what we ask for, or the answer, is held back
	}
	if p.env.Q.Throttled() {
		p.heardFrom()
	}
	p.link.expire()
	p.link.listen()
	silent := p.env.now().Sub(p.link.heard)
	if silent >= c.PeerTimeout {
		p.fail(ErrSilent, true)
		return
	}
	if silent >= c.ProbeAfter && !p.link.Backoff {
		if p.solicit(); !p.probing {
			p.noRoom()
		}
	}
	next := min(c.ProbeAfter, max(c.PeerTimeout-silent, 1))
	p.watchAgain(next)
}

// heardFrom notes a sign of life: a packet from the peer.
func (p *Peer) heardFrom() { p.link.heard = p.env.now() }

// listen takes what our device has completed as a sign of the peer's life: of its device
// at least, and where requests complete without that (device.Info's Pulse), if the peer's
// process was seen to run since the last time. What our own device has copied says nothing
// by itself.
func (l *Link) listen() {
	if l.path().Pulse {
		beat, ok := l.env.Q.Pulse(l.AH, l.QPN)
		if !ok || beat == l.beat {
			return
		}
		l.beat = beat
	}
	l.heard = max(l.heard, l.reached)
}

// solicit makes the peer answer with HANDSHAKE: a write of nothing to nowhere,
// which every release accepts.
func (p *Peer) solicit() {
	if p.probing {
		return
	}
	pke := p.env.Q.Alloc()
	if pke == nil {
		p.env.Q.AwaitSlot(&p.slotWait)
		return
	}
	var rtw wire.EagerRTW
	p.link.Options(&rtw.Options, p.link.HasRawAddr, p.link.HasConnID)
	if p.probing = p.post(pke, rtw.Append(pke.Header())); p.probing {
		p.env.Counters.Probes++
		p.env.Trail.Put(p.link.Span, trail.Probe, 0, 0, 0)
	}
}

// noRoom: no probe can go out, since the send queue is full of what waits for other
// peers. As long as the device gets on with that, silence says nothing about this one.
func (p *Peer) noRoom() {
	c := &p.env.Q.Counters
	if n := c.SendDone + c.SendProblem; n != p.ended {
		p.ended = n
		p.link.reached = p.env.now()
		p.link.excuse()
	}
}

// expire ends the operations that have waited too long for an answer: the peer
// lives, but it has refused them and has no word for that (§3.3).
func (l *Link) expire() {
	now := l.env.now()
	for m := l.members; m != nil; m = m.next {
		if m.since != 0 && now.Sub(m.since) >= l.env.Config.PeerTimeout {
			m.since = 0
			l.env.Sh.Tell(m.Op, &Fail{Link: l, use: m.use, Err: ErrNoAnswer})
		}
	}
}

// known ends the wait for HANDSHAKE of operations that are in the line.
func (l *Link) known() {
	for m := l.members; m != nil; m = m.next {
		if m.line {
			m.since, m.line = 0, false
		}
	}
}

// excuse does not hold a pause of our own against the peer.
func (l *Link) excuse() {
	for m := l.members; m != nil; m = m.next {
		m.GotOn(l)
	}
}

// Quiet reports whether nothing was heard for PeerTimeout of a peer that nobody watches.
func (l *Link) Quiet() bool {
	return !l.Busy() && l.env.now().Sub(l.heard) >= l.env.Config.PeerTimeout
}

// Probe has the peer asked for a sign of life.
func (l *Link) Probe() { l.env.Sh.Tell(l.Peer, &knock) }

// Reached is called by operations when RDMA of theirs is done.
func (l *Link) Reached() { l.reached = l.env.now() }

// Heard is called by operations when a packet of theirs reached the peer. That
// ends back-off, too.
func (l *Link) Heard() {
	l.Reached()
	if l.Backoff {
		l.cutBackoff()
	}
}

func (l *Link) cutBackoff() { l.env.Sh.Tell(l.Peer, &through) }

// onGone: the device knows that the peer's process is dead, or has closed its queue pair.
func (p *Peer) onGone(g *device.Gone) {
	switch {
	case g.QKey != 0 && g.QKey != p.link.QKey:
	case g.Left:
		p.fail(ErrLeft, true)
	default:
		p.fail(ErrDied, true)
	}
}

func (p *Peer) failStatus(s device.Status) { p.fail(p.statusError(s), true) }

// fail ends everything with the peer: the line, the blocked operations, what is in progress, and
// what waits for its turn to be received unless the peer may come back. The endpoint
// hears of it unless it asked for it.
func (p *Peer) fail(err error, tell bool) {
	if p.link.Err != nil {
		p.buryLater(err)
		return
	}
	again := p.link.Closed() != nil
	p.link.Err, p.link.Away = err, mayReturn(err)
	p.env.HeldBack.remove(p.link)
	p.link.watched = false
	sh := p.env.Sh
	if p.backingOff != nil {
		sh.StopTimer(&p.backingOff.timer)
	}
	p.env.Trail.Outcome(p.link.Span, trail.PeerEnd, 0, err)
	sh.StopTimer(&p.watchMsg.timer)
	p.link.Backoff = false
	for t := p.lineHead; t != nil; {
		next := t.next
		t.next, t.listed, t.owed = nil, false, false // it is a member, and told below
		t = next
	}
	p.lineHead, p.lineTail = nil, nil
	for pke := p.rnrHead; pke != nil; {
		next := pke.Next
		pke.Next = nil
		p.sendFailed(pke, device.StatusFlushed)
		pke = next
	}
	p.rnrHead, p.rnrTail = nil, nil
	p.link.failMembers(err)
	p.resume()
	if p.link.Away {
		p.failing = true
		sh.Tell(p.link.Peer, &allNotified)
	} else {
		p.bury(err)
	}
	if tell {
		var s *StatusError
		if !again && !errors.Is(err, ErrLeft) {
			p.env.Counters.PeersFailed++
			if errors.Is(err, ErrSilent) || errors.As(err, &s) && s.Status == device.StatusUnresponsive {
				p.env.Counters.PeersSilent++
			}
		}
		sh.Tell(p.env.Endpoint, &Down{Link: p.link, Err: err, Again: again})
	}
}

// mayReturn reports whether a peer that failed for that reason may come back under its
// connid.
func mayReturn(err error) bool {
	for _, final := range []error{ErrDied, ErrLeft, ErrRemoved, ErrReplaced, ErrOverMemory, ErrIntruder, ErrRestarted, ErrStopped} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// onAllNotified takes failNotified.
func (p *Peer) onAllNotified() {
	p.failing = false
	if p.reached && p.link.Away {
		p.comeBack()
	}
	p.reached = false
}

// Knock probes a peer that has failed and may come back, once in ProbeAfter: it may have
// failed us as well, and then neither would speak again.
func (l *Link) Knock() {
	if now := l.env.now(); l.Away && now >= l.of.watchMsg.due {
		l.of.watchMsg.due = now.Add(l.env.Config.ProbeAfter)
		l.env.Sh.Tell(l.Peer, &knock)
	}
}

// comeBack takes the peer back: it is heard although it has failed.
func (p *Peer) comeBack() {
	l := p.link
	if d := p.pending; d != nil {
		d.why = l.Err
	}
	l.Err, l.Away = nil, false
	l.Span = p.env.Trail.Next()
	p.env.Trail.Put(l.Span, trail.PeerBegin, 0, 0, 0)
	p.env.Trail.Locate(l.Span, l.Path, &l.Addr)
	p.env.Counters.PeersReturned++
	p.heardFrom()
	if p.asked = p.probing; l.Busy() {
		l.watch()
	}
	p.sendHandshakeIfQueued()
	p.env.Sh.Tell(p.env.Endpoint, &Up{Link: l})
	p.pending.send(p)
}

// bury gives up what was kept of a peer that might have come back.
func (p *Peer) bury(err error) {
	l := p.link
	l.Err, l.Away = err, false
	p.pending = nil
	l.orphans = nil
	p.env.Mem.Early -= int64(p.window.Kept())
	p.window.Drain((*Packet).Free)
	clear(p.nacked)
	for id, m := range p.multi {
		delete(p.multi, id)
		if m.missing = 0; m.packets == 0 {
			p.env.Pool.putMulti(m)
		}
	}
}

// buryLater is bury of a peer that failed before.
func (p *Peer) buryLater(err error) {
	if !p.link.Away || mayReturn(err) {
		return
	}
	p.bury(err)
	p.link.failMembers(err)
	p.env.Sh.Tell(p.env.Endpoint, &Buried{Link: p.link})
	if errors.Is(err, ErrLeft) { // which it failed of, or what its end is in any case
		p.env.Sh.Tell(p.env.Endpoint, &Down{Link: p.link, Err: err})
	}
}

// maxWrongKeys is how many keys a peer may try that name nothing: on most devices
// 32 bits are all that protects memory.
const maxWrongKeys = 16

// WrongKey counts a request of the peer's with a key that names nothing here, and
// fails the peer if there were too many.
func (l *Link) WrongKey() {
	l.env.Counters.RefusedKeys++
	if l.keysWrong++; l.keysWrong == maxWrongKeys && l.Err == nil {
		l.env.Sh.Tell(l.Peer, &Remove{Err: ErrIntruder, Tell: true})
	}
}

// ForgiveKeys allows for refusals that are not the peer's fault: we close memory that
// it may use, and its requests are under way.
func (l *Link) ForgiveKeys() { l.keysWrong = -forgiven }

// forgiven is more than the requests that a peer has under way at a time.
const forgiven = 1024

// Evicted is what is remembered of an idle peer that was evicted, so that it goes on where it
// was when it is heard again: only this endpoint knows the msg_ids of the two directions, and
// the peer sends HANDSHAKE once.
type Evicted struct {
	QKey     uint32 // its connid
	Gone     bool   // its process is dead: what comes is late
	expected uint32 // the msg_id whose turn it is
	next     uint32 // msg_id of ours

	features  wire.Features
	userQP    wire.UserRecvQP
	family    uint32
	heard     clock.Time
	keysWrong int32
	unknown   int32 // Link.UnknownAborts
	hostID    uint64

	handshake             handshakeState
	handshaken, hasFamily bool
}

// Idle reports whether nothing is in progress with the peer, nothing of its is kept here, and
// nothing under way to it: then it can be evicted.
func (l *Link) Idle() bool {
	p := l.of
	return l.Err == nil && !l.Away && !l.Busy() && l.charged == 0 && !l.Backoff && l.out == 0 && l.Runt == 0 && l.putOff == 0 &&
		!l.heldBack && (l.orphans == nil || len(l.orphans.ids) == 0) &&
		p.lineHead == nil && p.rnrHead == nil && p.blocked == nil && p.pending == nil && !p.probing && !p.failing &&
		p.handshake != handshakeQueued && p.window.kept == 0 && len(p.multi) == 0 && len(p.nacked) == 0 &&
		!l.env.Q.Holds(l.Peer)
}

// LastHeard is when the peer was last heard.
func (l *Link) LastHeard() clock.Time { return l.heard }

// Evict returns what is to be remembered of a peer if it is idle, and no message is under way
// to its actor, nor to the endpoint, which may be its own. Then the caller stops that in the same step.
func (l *Link) Evict() (Evicted, bool) {
	sh := l.env.Sh
	if !l.Idle() || !sh.Unburdened(l.Peer) || l.env.Endpoint.Pending() > 0 {
		return Evicted{}, false
	}
	l.HasRoom()
	sh.StopTimer(&l.of.watchMsg.timer)
	l.env.Trail.Outcome(l.Span, trail.PeerEnd, 0, nil)
	p := l.of
	return Evicted{
		QKey: l.QKey, expected: p.window.Expected(), next: p.nextID,
		features: l.Features, userQP: l.UserQP, family: l.Family, heard: l.heard,
		keysWrong: l.keysWrong, unknown: l.UnknownAborts, hostID: l.HostID(),
		handshake: p.handshake, handshaken: l.Handshaken, hasFamily: l.hasFamily,
	}, true
}

// Restore has a peer that was just made go on where r was evicted.
func (l *Link) Restore(r *Evicted) {
	p := l.of
	p.window = NewWindow(l.env.Config.RecvWindow, r.expected)
	if l.env.Config.Unordered {
		p.window.KeepNoOrder()
	}
	if r.hostID != 0 {
		l.noteHostID(r.hostID)
	}
	p.nextID, l.floor = r.next, r.next
	p.handshake = r.handshake
	l.Features, l.UserQP, l.Family, l.hasFamily = r.features, r.userQP, r.family, r.hasFamily
	l.Handshaken, l.heard = r.handshaken, r.heard
	l.keysWrong, l.UnknownAborts = r.keysWrong, r.unknown
	l.chooseHeaders()
}

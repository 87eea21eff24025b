package peer

import (
	"errors"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

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

//go:noinline // so that Heard is
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

// fail ends everything with the peer: the line, what is held, what is in progress, and
// what waits for its turn to be received unless the peer may come back. The endpoint
// hears of it unless it asked for it.
func (p *Peer) fail(err error, tell bool) {
	if p.link.Err != nil {
		p.buryLater(err)
		return
	}
	again := p.link.Closed() != nil
	p.link.Err, p.link.Away = err, mayReturn(err)
	p.env.Full.leave(p.link)
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
		sh.Tell(p.link.Peer, &toldAll)
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

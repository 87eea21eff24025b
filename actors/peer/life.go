package peer

import (
	"errors"
	"slices"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/machine"
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
	if !p.link.Busy() && p.link.load.line == nil || p.link.Err != nil {
		p.link.watched = false
		return
	}
	c := &p.env.Config
	if p.env.now().Sub(p.watchMsg.due) > overslept {
		p.heardFrom() // what it sent meanwhile has yet to be looked at
		p.link.excuse()
	}
	if p.link.load.putOff > 0 || p.env.Q.Throttled() {
		p.link.slacken() // what we ask for, or the answer, is held back
	}
	if p.env.Q.Throttled() {
		p.heardFrom()
	}
	p.link.expire()
	p.link.listen()
	silent, asked := p.env.now().Sub(p.link.heard), p.probed > p.link.heard
	over := silent >= c.PeerTimeout
	if silent >= c.ProbeAfter && !p.link.BackingOff() && !(over && asked) {
		if p.solicit(); !p.link.load.flags.has(probing) {
			p.noRoom()
		}
	}
	next := min(c.ProbeAfter, c.PeerTimeout-silent)
	if over {
		if next = p.answerDue(); next <= 0 {
			p.fail(ErrSilent, true)
			return
		}
	}
	p.watchAgain(next)
}

// answerDue is how long a peer that was silent for PeerTimeout still has to answer: none fails that was not
// asked a quarter of PeerTimeout before at least. A peer that cannot be asked, since it is in back-off or the
// send queue is full, has packets of ours under way, which ask as well.
func (p *Peer) answerDue() time.Duration {
	if p.probed <= p.link.heard {
		return 0
	}
	return p.env.Config.PeerTimeout/4 - p.env.now().Sub(p.probed)
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
	if p.link.load.flags.has(probing) {
		return
	}
	pke := p.env.Q.Alloc()
	if pke == nil {
		p.env.Q.AwaitSlot(&p.slotWait)
		return
	}
	var rtw wire.EagerRTW
	p.link.Options(&rtw.Options, p.link.HasRawAddr, p.link.HasConnID)
	if p.post(pke, rtw.Append(pke.Header())) {
		p.link.load.flags.set(probing)
		if p.probed <= p.link.heard {
			p.probed = p.env.now()
		}
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
		if p.link.load.putOff == 0 { // else the tick has done it
			p.link.slacken()
		}
	}
}

// expire ends the operations that have waited too long for an answer: the peer
// lives, but it has refused them and has no word for that (§3.3).
func (l *Link) expire() {
	now := l.env.now()
	for m := l.load.members; m != nil; m = m.next {
		if m.since != 0 && now.Sub(m.since) >= l.env.Config.PeerTimeout {
			m.since = 0
			l.env.Sh.Tell(m.Op, &Fail{Link: l, use: m.use, Err: ErrNoAnswer})
		}
	}
}

// known ends the wait for HANDSHAKE of operations that are in the line.
func (l *Link) known() {
	for m := l.load.members; m != nil; m = m.next {
		if m.line {
			m.since, m.line = 0, false
		}
	}
}

// excuse does not hold a pause of our own against the peer.
func (l *Link) excuse() {
	for m := l.load.members; m != nil; m = m.next {
		m.GotOn(l)
	}
}

// slacken lets only a quarter of the time between two ticks count for operations that wait for an
// answer: the request or the answer may be held back for want of memory. But it may as well never
// come, and what the application does next may be what would free the memory.
func (l *Link) slacken() {
	now, slack := l.env.now(), l.env.Config.ProbeAfter/4*3
	for m := l.load.members; m != nil; m = m.next {
		if m.since != 0 {
			m.since = min(m.since.Add(slack), max(now, 1))
		}
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
	if l.BackingOff() {
		l.cutBackoff()
	}
}

func (l *Link) cutBackoff() { l.env.Sh.Tell(l.Peer, &through) }

// onGone: the device knows that the peer's process is dead, or has closed its queue pair.
func (p *Peer) onGone(g *device.Gone) {
	switch {
	case g.QKey != 0 && g.QKey != p.link.QKey: // perhaps of one that is on trial here, or has come meanwhile
		p.env.Sh.Tell(p.env.Endpoint, g)
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
	l := p.link
	again, final := l.load.life == Owing && l.load.owed.why != nil, l.isFinal(err)
	l.Err = err
	if final {
		l.live(LifeBury)
	} else {
		l.live(LifeFail)
	}
	p.env.HeldBack.remove(p.link)
	p.link.watched = false
	sh := p.env.Sh
	if p.backoffOver != nil {
		sh.StopTimer(&p.backoffOver.timer)
	}
	p.env.Trail.Outcome(p.link.Span, trail.PeerEnd, 0, failure(err))
	sh.StopTimer(&p.watchMsg.timer)
	l.SetBackingOff(false)
	for t := p.link.load.line; t != nil; {
		next := t.next
		t.next, t.listed, t.owed = nil, false, false // it is a member, and told below
		t = next
	}
	p.link.load.line, p.lineTail = nil, nil
	for pke := p.link.load.refused; pke != nil; {
		next := pke.Next
		pke.Next = nil
		p.sendFailed(pke, device.StatusFlushed)
		pke = next
	}
	p.link.load.refused, p.refusedTail = nil, nil
	p.link.failMembers(err)
	p.resume()
	if final {
		p.bury()
	} else {
		sh.Tell(l.Peer, &allNotified)
	}
	if tell {
		var s *StatusError
		if !again && failure(err) != nil {
			p.env.Counters.PeersFailed++
			if errors.Is(err, ErrSilent) || errors.As(err, &s) && s.Status == device.StatusUnresponsive {
				p.env.Counters.PeersSilent++
			}
		}
		sh.Tell(p.env.Endpoint, &Down{Link: p.link, Err: err, Again: again})
	}
}

// failure is the error with which the span of a peer ends: none if it has closed its endpoint. The operations that this
// cut short have the error.
func failure(err error) error {
	if errors.Is(err, ErrLeft) {
		return nil
	}
	return err
}

// isFinal reports whether a peer that failed for that reason does not come back under its connid: it is
// gone, or this endpoint wants nothing more of it. That is a verdict over a peer that lives, which
// must reach it: our device refuses all that it sends from now on. A device that cannot do that
// acknowledges what comes, so the peer is received again then, and only our own operations end. A peer
// that hoards is given up on every device: else it would take the memory of all. So is one of which a packet cannot
// be read: what follows in the order of its messages could not be received.
func (l *Link) isFinal(err error) bool {
	return isAny(err, ErrDied, ErrLeft, ErrRemoved, ErrReplaced, ErrStopped, ErrOverMemory, ErrUnreadable) || isVerdict(err) && l.path().HoldsBack
}

// shut has our device refuse what the peer sends.
func (l *Link) shut() {
	_ = l.env.Q.QP().Shut(l.AH, l.QPN, l.QKey) // the handle is good as long as the peer is
}

// isVerdict reports whether the peer failed since this endpoint wants nothing more of it.
func isVerdict(err error) bool {
	return isAny(err, ErrOverMemory, ErrUnreadable, ErrIntruder, ErrRestarted, ErrRemoved)
}

func isAny(err error, of ...error) bool {
	return slices.ContainsFunc(of, func(x error) bool { return errors.Is(err, x) })
}

// onAllNotified takes failNotified.
func (p *Peer) onAllNotified() {
	switch l := p.link; l.load.life {
	case Failing:
		l.live(LifeTold)
	case Returning:
		p.comeBack()
	default: // it was buried meanwhile
	}
}

// Knock probes a peer that has failed and may come back, once in ProbeAfter: it may have
// failed us as well, and then neither would speak again.
func (l *Link) Knock() {
	if now := l.env.now(); l.MayReturn() && now >= l.of.watchMsg.due {
		l.of.watchMsg.due = now.Add(l.env.Config.ProbeAfter)
		l.env.Sh.Tell(l.Peer, &knock)
	}
}

// comeBack takes the peer back: it is heard although it has failed.
func (p *Peer) comeBack() {
	l := p.link
	if d := l.load.owed; d != nil {
		d.why = l.Err
		l.live(LifeBackOwing)
	} else {
		l.live(LifeBack)
	}
	l.Err = nil
	l.Span = p.env.Trail.Next()
	p.env.Trail.Put(l.Span, trail.PeerBegin, 0, 0, 0)
	p.env.Trail.Locate(l.Span, l.Path, &l.Addr)
	p.env.Counters.PeersReturned++
	p.heardFrom()
	if p.asked = l.load.flags.has(probing); l.Busy() {
		l.watch()
	}
	p.sendHandshake()
	p.env.Sh.Tell(p.env.Endpoint, &Up{Link: l})
	p.link.load.owed.send(p)
}

// bury gives up what was kept of a peer that might have come back.
func (p *Peer) bury() {
	l := p.link
	if isVerdict(l.Err) {
		l.shut()
	}
	l.load.owed, l.load.orphans = nil, nil
	p.env.Mem.Early -= int64(p.window.Kept())
	p.window.Drain((*Packet).Free)
	clear(p.nacked)
	for id, m := range p.multi {
		delete(p.multi, id)
		if m.missing = 0; m.packets == 0 {
			p.env.Pool.putMulti(m)
		}
	}
	l.load.early, l.load.parts = 0, 0
}

// GiveUp has a peer buried that has failed and may come back. It reports false if it has not failed,
// or if our device could not refuse what it sends then.
func (l *Link) GiveUp() bool {
	if !l.MayReturn() || !l.path().HoldsBack {
		return false
	}
	l.shut()
	l.env.Sh.Tell(l.Peer, &Remove{Err: ErrRemoved})
	return true
}

// buryLater is bury of a peer that failed before.
func (p *Peer) buryLater(err error) {
	l := p.link
	if l.Buried() || !l.isFinal(err) {
		return
	}
	l.Err = err
	l.live(LifeBury)
	p.bury()
	p.link.failMembers(err)
	p.env.Sh.Tell(p.env.Endpoint, &Burial{Link: p.link})
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
	if l.keysWrong++; l.keysWrong >= maxWrongKeys && l.Err == nil {
		l.keysWrong = 0
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
	err      error  // it had failed, and may come back
	expected uint32 // the msg_id whose turn it is
	next     uint32 // msg_id of ours

	features  wire.Features
	userQP    wire.UserRecvQP
	family    uint32
	heard     clock.Time
	keysWrong int32
	hostID    uint64

	answered, handshaken, hasFamily bool
}

// Left reports whether the peer has left: it is dead, or had failed for that its queue pair is gone.
func (r *Evicted) Left() bool { return r.Gone || HasLeft(r.err) }

// LastHeard is when the peer was last heard.
func (l *Link) LastHeard() clock.Time { return l.heard }

// Evict returns what is to be remembered of a peer if it is idle, and no message is under way
// to its actor, nor to the endpoint, which may be its own. Then the caller stops that in the same step.
func (l *Link) Evict() (Evicted, bool) {
	sh := l.env.Sh
	if !l.Idle() || l.env.Q.Holds(l.Peer) || !sh.Unburdened(l.Peer) || l.env.Endpoint.Pending() > 0 {
		return Evicted{}, false
	}
	if l.place == PlaceWaiting {
		l.HasRoom()
	}
	sh.StopTimer(&l.of.watchMsg.timer)
	if l.Err == nil {
		l.env.Trail.Outcome(l.Span, trail.PeerEnd, 0, nil)
	}
	l.Move(MoveEvict)
	p := l.of
	return Evicted{
		QKey: l.QKey, expected: p.window.Expected(), next: p.nextID,
		features: l.Features, userQP: l.UserQP, family: l.Family, heard: l.heard,
		keysWrong: l.keysWrong, hostID: l.HostID(),
		err: l.Err, answered: p.answered, handshaken: l.Handshaken, hasFamily: l.hasFamily,
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
	p.answered = r.answered
	l.Features, l.UserQP, l.Family, l.hasFamily = r.features, r.userQP, r.family, r.hasFamily
	l.Handshaken, l.heard = r.handshaken, r.heard
	l.keysWrong = r.keysWrong
	if r.err != nil {
		l.Err = r.err
		l.load.life = Away
	}
	l.chooseHeaders()
}

// live moves the peer's life. An event for which the table has no edge is a mistake of ours: it is
// counted, and nothing changes.
func (l *Link) live(e LifeEvent) bool {
	i := machine.Entry(uint8(l.load.life), uint8(e))
	n := lifeMoves[i]
	if n == machine.None {
		l.violated(machine.NoEdge(e, l.load.life))
		return false
	}
	l.load.life = Life(n)
	l.env.Steps.life[i]++
	return true
}

// Move moves the peer's place, as live does its life.
func (l *Link) Move(e Move) {
	i := machine.Entry(uint8(l.place), uint8(e))
	n := placeMoves[i]
	if n == machine.None {
		l.violated(machine.NoEdge(e, l.place))
		return
	}
	l.place = Place(n)
	l.env.Steps.place[i]++
}

func (l *Link) violated(err error) {
	l.env.Counters.Violations++
	l.env.LogOf(l).Error("violation", "err", err)
}

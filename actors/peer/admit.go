package peer

import (
	"cmp"
	"fmt"
	"math"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// Turn is a sending operation's place in its peer's line: embedded in the txe,
// which the endpoint submits and the peer grants, in order.
type Turn struct {
	Op    shard.Ref
	MsgID uint32
	NoID  bool // it takes no msg_id: writes and reads are in no order (§3.3)
	Await bool // only once the peer's features are known
	Span  uint64

	need    uint8 // 1 more than the feature that the peer must have, 0: none; see needFeature
	listed  bool  // the peer has it in its line
	sent    bool  // Submit is under way
	fence   bool  // it waits for all before it
	use     uint32
	owed    bool // the peer has yet to answer
	waits   trail.Reason
	kind    settings.Kinds // under an order; 0: it is under none
	counted bool           // it is one of order.flying
	asked   bool           // it is to say when it is over
	follows bool           // it is of a part of an operation that has had its turn
	submit  Submit
	grant   Grant
	next    *Turn
}

// Init makes it the turn of op.
func (t *Turn) Init(op shard.Ref) { t.Op, t.submit.Turn, t.grant.Turn = op, t, t }

// Again is a turn for a later operation, which no message about t is meant for.
func (t *Turn) Again() Turn { return Turn{use: t.use} }

// Ask sets what the operation asks of the line: no msg_id, a peer whose features are
// known. Submit is to be called then.
func (t *Turn) Ask(noID, await bool) {
	t.NoID, t.Await, t.need = noID, await, 0
	t.use++
}

// Need makes the operation end if the peer lacks f.
func (t *Turn) Need(f wire.Feature) { t.Await, t.need = true, uint8(f)+1 }

// Taken notes that the operation has seen the Grant.
func (t *Turn) Taken() { t.owed = false }

// Submit asks l's peer for t's turn. If it has come, and with it a msg_id, Submit
// returns the entry for the first packet, which must be posted at once. Otherwise it
// returns nil, and Grant, Refused or Fail follows.
func (l *Link) Submit(t *Turn) *device.Pke {
	sh := l.env.Sh
	if !sh.Enter(l.Peer) {
		l.SubmitLater(t)
		return nil
	}
	pke := l.of.admit(t)
	sh.Exit()
	return pke
}

// SubmitLater asks for t's turn by a message: Grant, Refused or Fail follows in any case.
func (l *Link) SubmitLater(t *Turn) {
	t.owed, t.sent = true, true
	l.env.Sh.Tell(l.Peer, &t.submit)
}

// BackingOff reports whether the peer met RNR, so that nothing may be posted.
func (l *Link) BackingOff() bool { return l.load.flags&backingOff != 0 }

// SetBackingOff has nothing posted, or ends that.
func (l *Link) SetBackingOff(on bool) { l.load.flags.put(backingOff, on) }

// Takes reports whether the peer of l is open for what is new, as Closed says why not.
func (l *Link) Takes() bool { return l.load.life == Live }

// Closed is why nothing new goes to the peer: it has failed, or is back and is still owed
// something; else nil.
func (l *Link) Closed() error {
	if l.load.life == Owing {
		return cmp.Or(l.load.owed.why, errPending)
	}
	return l.Err
}

// refused is why an operation that cannot be carried out has no turn; no operation waits for that.
const refused = trail.Reason(math.MaxUint8)

// admit is the admission of every first packet, of an operation that submits itself or is the first in
// the line: it returns an entry for the packet, and a msg_id has been spent on it in t if it needs
// one. It returns nil if t is in the line, where it waits, or has been told that it is over.
// A msg_id is only spent on a packet that can go out at once (§3.2).
func (p *Peer) admit(t *Turn) *device.Pke {
	l := p.link
	if l.load.life != Live && !t.listed {
		return p.turnAway(t)
	}
	if p.link.load.line != nil && p.link.load.line != t && !t.passesBy() {
		return p.notYet(t, trail.ForTurn)
	}
	if l.BackingOff() || l.load.putOff > 0 {
		return p.notYet(t, trail.ForBackoff)
	}
	if (t.Await || p.env.Config.WaitHandshake) && !l.Known() {
		p.ask()
		return p.notYet(t, trail.ForHandshake)
	}
	if t.need > 0 {
		if why := p.demands(t); why != 0 {
			return p.notYet(t, why)
		}
	}
	if l.Headerless {
		t.NoID = true // what goes without a header has no place in an order
	}
	if !t.NoID && p.nextID-l.floor >= maxAhead && !l.mayRun(p.nextID) {
		return p.notYet(t, trail.ForArrival)
	}
	pke := p.env.Q.Alloc()
	if pke == nil {
		p.env.Q.AwaitSlot(&p.slotWait)
		return p.notYet(t, trail.ForRoom)
	}
	if !t.NoID {
		t.MsgID = p.nextID
		p.nextID++
	}
	p.asked = true // what goes out will be answered
	return pke
}

// Unposted notes that the device did not take the first packet of an operation whose turn has come:
// the msg_id is that of the next message, and nothing on the way asks for HANDSHAKE. False: a later
// message has its msg_id already, so that this one's stays spent.
func (l *Link) Unposted(t *Turn) bool {
	p := l.of
	p.asked = l.load.flags.has(probing)
	if t.NoID {
		return true
	}
	if p.nextID != t.MsgID+1 {
		return false
	}
	p.nextID = t.MsgID
	return true
}

// turnAway ends an operation with a peer that takes nothing new.
func (p *Peer) turnAway(t *Turn) *device.Pke {
	t.owed = false
	p.env.Sh.Tell(t.Op, &Fail{Link: p.link, Err: p.link.Closed()})
	return nil
}

// notYet puts an operation that was not admitted into the line, or ends it.
func (p *Peer) notYet(t *Turn, why trail.Reason) *device.Pke {
	switch {
	case why == refused:
		if t.listed {
			p.nextInLine()
		}
		p.refuse(t)
	case t.listed:
		p.waits(t, why)
	default:
		p.queueTurn(t, why)
	}
	return nil
}

// passesBy reports whether the turn comes before all in the line: it is of a part of an operation that
// has had its turn.
func (t *Turn) passesBy() bool { return t.follows && t.need&needOrder != 0 }

// queueTurn puts an operation that waits for why into the line.
func (p *Peer) queueTurn(t *Turn, why trail.Reason) {
	t.owed, t.waits, t.listed, t.next = true, 0, true, nil
	switch {
	case p.lineTail == nil:
		p.link.load.line, p.lineTail = t, t
	case t.passesBy():
		t.next, p.link.load.line = p.link.load.line, t
	default:
		p.lineTail.next, p.lineTail = t, t
	}
	p.waits(t, why)
}

// serveLine grants turns in order.
func (p *Peer) serveLine() {
	for t := p.link.load.line; t != nil; t = p.link.load.line {
		if pke := p.admit(t); pke != nil {
			p.nextInLine()
			t.grant.Pke = pke
			p.env.Sh.Call(t.Op, &t.grant)
		} else if t.listed {
			return
		}
	}
}

// nextInLine takes the first out of the line.
func (p *Peer) nextInLine() {
	t := p.link.load.line
	if p.link.load.line = t.next; p.link.load.line == nil {
		p.lineTail = nil
	}
	t.next, t.listed = nil, false
}

// refuse ends an operation that the peer cannot take part in, as it lacks a feature.
func (p *Peer) refuse(t *Turn) {
	t.owed = false
	p.env.Sh.Tell(t.Op, &Refused{Turn: t, Err: missing(wire.Feature(t.need&needFeature - 1))})
}

func missing(f wire.Feature) error {
	return fmt.Errorf("%w: the peer lacks %s", errno.ErrNotSupported, f)
}

// waits notes what an operation in the line waits for.
func (p *Peer) waits(t *Turn, why trail.Reason) {
	if t.waits != why {
		t.waits = why
		p.env.Trail.Put(t.Span, trail.Waits, uint8(why), 0, 0)
	}
}

// Waits says what an operation in the line waits for.
func (t *Turn) Waits() string {
	switch t.waits {
	case trail.ForBackoff:
		return "the end of back-off after RNR"
	case trail.ForHandshake:
		return "HANDSHAKE"
	case trail.ForRoom:
		return "room in the send queue"
	case trail.ForArrival:
		return "the arrival of messages far before it"
	default:
		return "its turn: others are before it in the peer's line"
	}
}

// ask makes the peer answer with HANDSHAKE unless something that it will answer
// is under way.
func (p *Peer) ask() {
	if !p.asked {
		p.solicit()
		p.asked = p.link.load.flags.has(probing)
	}
}

// InLine reports whether the turn is still to come: its peer has yet to answer
// with Grant, Fail or Withdrawn, or the operation to see the Grant.
func (t *Turn) InLine() bool { return t.owed }

// Withdraw asks l's peer to take t out of its line, for the request id.
func (t *Turn) Withdraw(l *Link, id uint64) {
	l.env.Sh.Tell(l.Peer, &Withdraw{turn: t, use: t.use, id: id})
}

// onWithdraw takes an operation out of the line if its turn has not come.
func (p *Peer) onWithdraw(w *Withdraw) {
	t := w.turn
	if !t.listed || t.use != w.use {
		p.env.Sh.Tell(t.Op, &Withdrawn{ID: w.id})
		return
	}
	var prev *Turn
	for q := p.link.load.line; q != t; q = q.next {
		prev = q
	}
	if prev == nil {
		p.link.load.line = t.next
	} else {
		prev.next = t.next
	}
	if p.lineTail == t {
		p.lineTail = prev
	}
	t.next, t.listed, t.owed = nil, false, false
	p.env.Sh.Tell(t.Op, &Withdrawn{ID: w.id, OK: true})
	if prev == nil && p.link.fences != nil { // the next may wait for less
		p.env.Sh.Tell(p.link.Peer, &lineFree)
	}
}

// onBlocked keeps an operation until packets may be posted again.
func (p *Peer) onBlocked(h *Blocked) {
	h.next = nil
	if p.blockedTail == nil {
		p.link.load.blocked = h
	} else {
		p.blockedTail.next = h
	}
	p.blockedTail = h
	p.resume()
}

// resume tells the blocked operations that may go on.
func (p *Peer) resume() {
	var keep, tail *Blocked
	for h := p.link.load.blocked; h != nil; {
		next := h.next
		h.next = nil
		ready := p.link.Err != nil || p.link.Open() || (h.AnyOf && !p.link.BackingOff())
		if ready {
			p.env.Sh.Tell(h.Op, &h.resume)
		} else {
			if tail == nil {
				keep = h
			} else {
				tail.next = h
			}
			tail = h
		}
		h = next
	}
	p.link.load.blocked, p.blockedTail = keep, tail
}

// Begin says that an operation has begun which has parts that will follow; Begun that all of them
// are over. Operations that wait for earlier ones wait for that.
func (l *Link) Begin() {
	if l.fences == nil {
		l.fences = new(fences)
	}
	l.fences.begun++
}

// Begun ends what Begin began.
func (l *Link) Begun() {
	l.fences.begun--
	l.fences.openLine(l)
}

// demands is the part of the admission that few operations have: it returns what t has to
// wait for, or refused.
func (p *Peer) demands(t *Turn) trail.Reason {
	if f := t.need & needFeature; f > 0 && !p.link.Can(wire.Feature(f-1)) {
		return refused
	}
	if t.need&needOrder == 0 || t.counted {
		return 0
	}
	if p.link.fences == nil {
		p.link.fences = new(fences)
	}
	o := p.link.fences
	o.waits = true
	switch {
	case o.begun > 0 && !t.follows:
		return trail.ForArrival
	case t.fence:
		if m := p.link.oldestBefore(t); m != nil {
			if !o.asked {
				o.asked = true
				o.ask.link, o.ask.use = p.link, m.use
				p.env.Sh.Tell(m.Op, &o.ask)
			}
			return trail.ForArrival
		}
	case !t.follows && o.anyOf(p.env.Config.Order.Before(t.kind)): // the first part waited for all
		return trail.ForArrival
	}
	if p.link.load.line == nil || p.link.load.line == t { // else the one that t passes by still waits
		o.waits = false
	}
	if t.kind != 0 {
		t.counted = true
		o.flying[kindIndex(t.kind)]++
	}
	return 0
}

// oldestBefore finds the oldest operation of ours that had its turn before t and is not over.
func (l *Link) oldestBefore(t *Turn) (oldest *Member) {
	for m := l.load.members; m != nil; m = m.next {
		b := m.turn
		if b != nil && b != t && !b.listed && !b.sent && b.need&needAnswer == 0 {
			oldest = m
		}
	}
	return oldest
}

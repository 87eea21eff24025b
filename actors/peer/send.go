package peer

import (
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

	need    uint8 // 1 more than the feature that the peer must have, 0: none; see order.go
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

// InLine reports whether the turn is still to come: its peer has yet to answer
// with Grant, Fail or Withdrawn, or the operation to see the Grant.
func (t *Turn) InLine() bool { return t.owed }

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

// Closed is why nothing new goes to the peer: it has failed, or is back and is still owed
// something; else nil.
func (l *Link) Closed() error {
	if l.Err == nil && l.of.debts != nil {
		return l.of.debts.why
	}
	return l.Err
}

// Takes reports whether the peer of l is open for what is new, as Closed says why not.
func (l *Link) Takes() bool { return l.Err == nil && l.of.debts == nil }

// Withdraw asks l's peer to take t out of its line, for the request id.
func (t *Turn) Withdraw(l *Link, id uint64) {
	l.env.Sh.Tell(l.Peer, &Withdraw{turn: t, use: t.use, id: id})
}

// SubmitLater asks for t's turn by a message: Grant, Refused or Fail follows in any case.
func (l *Link) SubmitLater(t *Turn) {
	t.owed, t.sent = true, true
	l.env.Sh.Tell(l.Peer, &t.submit)
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
		p.enterLine(t, why)
	}
	return nil
}

// passesBy reports whether the turn comes before all in the line: it is of a part of an operation that
// has had its turn.
func (t *Turn) passesBy() bool { return t.follows && t.need&needOrder != 0 }

// enterLine puts an operation that waits for why into the line.
func (p *Peer) enterLine(t *Turn, why trail.Reason) {
	t.owed, t.waits, t.listed, t.next = true, 0, true, nil
	switch {
	case p.lineTail == nil:
		p.lineHead, p.lineTail = t, t
	case t.passesBy():
		t.next, p.lineHead = p.lineHead, t
	default:
		p.lineTail.next, p.lineTail = t, t
	}
	p.waits(t, why)
}

// serveLine grants turns in order.
func (p *Peer) serveLine() {
	for t := p.lineHead; t != nil; t = p.lineHead {
		if pke := p.admit(t); pke != nil {
			p.nextInLine()
			t.grant.Pke = pke
			p.env.Sh.Call(t.Op, &t.grant)
		} else if t.listed {
			return
		}
	}
}

// refused is why an operation that cannot be carried out has no turn; no operation waits for that.
const refused = trail.Reason(math.MaxUint8)

// admit is the admission of every first packet, of an operation that submits itself or is the first in
// the line: it returns an entry for the packet, and a msg_id has been spent on it in t if it needs
// one. It returns nil if t is in the line, where it waits, or has been told that it is over.
// A msg_id is only spent on a packet that can go out at once (§3.2).
func (p *Peer) admit(t *Turn) *device.Pke {
	l := p.link
	if (l.Err != nil || p.debts != nil) && !t.listed {
		return p.turnAway(t)
	}
	if p.lineHead != nil && p.lineHead != t && !t.passesBy() {
		return p.notYet(t, trail.ForTurn)
	}
	if l.Backoff || l.putOff > 0 {
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

// refuse ends an operation that the peer cannot take part in, as it lacks a feature.
func (p *Peer) refuse(t *Turn) {
	t.owed = false
	p.env.Sh.Tell(t.Op, &Refused{Turn: t, Err: missing(wire.Feature(t.need&needFeature - 1))})
}

// waits notes what an operation in the line waits for.
func (p *Peer) waits(t *Turn, why trail.Reason) {
	if t.waits != why {
		t.waits = why
		p.env.Trail.Put(t.Span, trail.Waits, uint8(why), 0, 0)
	}
}

// nextInLine takes the first out of the line.
func (p *Peer) nextInLine() {
	t := p.lineHead
	if p.lineHead = t.next; p.lineHead == nil {
		p.lineTail = nil
	}
	t.next, t.listed = nil, false
}

// ask makes the peer answer with HANDSHAKE unless something that it will answer
// is under way.
func (p *Peer) ask() {
	if !p.asked {
		p.solicit()
		p.asked = p.probing
	}
}

func missing(f wire.Feature) error {
	return fmt.Errorf("%w: the peer lacks %s", errno.ErrNotSupported, f)
}

// onWithdraw takes an operation out of the line if its turn has not come.
func (p *Peer) onWithdraw(w *Withdraw) {
	t := w.turn
	if !t.listed || t.use != w.use {
		p.env.Sh.Tell(t.Op, &Withdrawn{ID: w.id})
		return
	}
	var prev *Turn
	for q := p.lineHead; q != t; q = q.next {
		prev = q
	}
	if prev == nil {
		p.lineHead = t.next
	} else {
		prev.next = t.next
	}
	if p.lineTail == t {
		p.lineTail = prev
	}
	t.next, t.listed, t.owed = nil, false, false
	p.env.Sh.Tell(t.Op, &Withdrawn{ID: w.id, OK: true})
	if prev == nil && p.link.order != nil { // the next may wait for less
		p.env.Sh.Tell(p.link.Peer, &lineFree)
	}
}

// onRoom: the send queue has room again, for the line or for HANDSHAKE.
func (p *Peer) onRoom(w *device.SlotWait) {
	if w == &p.hsWait {
		p.sendHandshake()
		return
	}
	if d := p.debts; d != nil && w == &d.room {
		d.pay(p)
		return
	}
	p.resendRefused()
	p.debts.pay(p) // it may have waited for a probe
	p.serveLine()
}

// onHold keeps an operation until packets may be posted again.
func (p *Peer) onHold(h *Hold) {
	h.next = nil
	if p.holdsTail == nil {
		p.holds = h
	} else {
		p.holdsTail.next = h
	}
	p.holdsTail = h
	p.resume()
}

// resume tells the held operations that may go on.
func (p *Peer) resume() {
	var keep, tail *Hold
	for h := p.holds; h != nil; {
		next := h.next
		h.next = nil
		ready := p.link.Err != nil || p.link.Open() || (h.AnyOf && !p.link.Backoff)
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
	p.holds, p.holdsTail = keep, tail
}

// post gives a packet of the peer's own to the device.
func (p *Peer) post(pke *device.Pke, header []byte) bool {
	pke.Fill(header, nil)
	pke.Span = p.link.Span
	p.link.Address(pke, shard.Ref{})
	pke.Watch = true // its end is a sign of life
	p.env.Counters.PacketsSent[header[0]]++
	if err := p.env.Q.Post(pke); err != nil {
		p.env.LogOf(p.link).Warn("post", "err", err)
		p.env.Q.Free(pke)
		return false
	}
	return true
}

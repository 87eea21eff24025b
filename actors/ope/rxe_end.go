package ope

import (
	"errors"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
)

// fail ends the operation. If a receive has matched it, that gets the error. A
// message that is here in full can still be received although its sender is gone.
func (r *Rxe) fail(err error) {
	if !r.busy || r.m.State.over() {
		r.settle()
		return
	}
	if r.m.State < RxAsk && r.stored == r.m.Total {
		return
	}
	if r.m.State < RxAsk && r.link.Away && errors.Is(err, r.link.Err) && (r.ord != nil || r.wait != nil || r.parked) {
		r.Park()
		return
	}
	if r.m.State == RxAnswer { // the outcome was given, and no peer is there to answer
		if r.owes&owesAnswer != 0 {
			r.link.Owe(r.packet(nil, owesAnswer, 0))
		}
		r.owes = 0
		r.step(RxAnswered)
		r.settle()
		return
	}
	r.end(err)
}

// awaited reports whether the peer waits for us to go on with what it sends.
func (r *incoming) awaited() bool {
	return (r.m.State == RxMatched || r.m.State < RxAsk) && (r.m.Proto.dc() || protos[r.m.Proto].cts || r.m.Proto.readBased()) && !r.asks() &&
		r.m.Proto != DirectRead
}

// onAbandon: the queue pair is closed. Nothing that is under way ever ends, and no
// receive will come for a message that waits.
func (r *Rxe) onAbandon(err error) {
	r.flying, r.owes = 0, 0
	if !r.busy {
		return
	}
	over := r.m.State.over()
	if !r.must(r.m.Abandon()) {
		return
	}
	if over {
		r.settle()
		return
	}
	r.ended(err)
}

// end ends the operation with err.
func (r *Rxe) end(err error) {
	if r.asks() && r.rsp || r.link.Err != nil && r.incoming.awaited() { // the peer waits for CTS, RECEIPT or EOR
		r.sendError(uint32(errno.ProvPeerAborted))
	} else if r.m.Proto == LongCTSRead && r.m.State == RxMatched && (r.link.Err == nil || r.link.Away) {
		r.link.Untold(r.id)
	}
	if r.step(RxFail) {
		r.ended(err)
	}
}

// ended gives back what an operation that has failed holds.
func (r *Rxe) ended(err error) {
	if r.err == nil {
		r.err = err
	}
	r.owes = 0
	r.discharge()
	for r.head != nil {
		p := r.head
		r.head = p.Next
		p.Free()
	}
	r.tail = nil
	if r.wait != nil {
		r.pools.Unlist(r)
		r.unlisted()
	}
	if x := r.x; x != nil && x.turn.InLine() && r.link.Err == nil && !r.pools.Closing {
		x.turn.Withdraw(r.link, r.RequestID())
	}
	if r.x != nil && (r.x.nacked || r.x.refusing) && r.ord != nil {
		r.pools.env.Sh.Tell(r.link.Peer, &peer.Nacked{MsgID: r.says.MsgID})
	}
	r.settle()
}

// onCancel lets the caller go: nothing is written to its buffer from now on, what
// comes is received to its end and thrown away, so that the sender completes. RDMA
// reads that the device has are awaited.
func (r *Rxe) onCancel(m *Cancel) {
	if !r.busy || r.c.state != CallerHolding || r.RequestID() != m.ID {
		return
	}
	if r.x != nil && r.x.turn.InLine() {
		if r.must(r.c.Step(CallerWithdraw)) {
			r.canceled = m.Err
			r.x.turn.Withdraw(r.link, m.ID)
		}
		return
	}
	if r.m.State.over() {
		return // only the device is awaited
	}
	if r.must(r.c.Step(CallerCancel)) {
		r.beginToLeave(m.Err)
	}
}

// beginToLeave gives a canceled caller its outcome as soon as the device writes no more to its
// buffer.
func (r *Rxe) beginToLeave(err error) {
	r.canceled = err
	if r.m.Proto == DirectRead {
		r.m.StopReading()
		r.end(err)
		return
	}
	r.m.Forgo()
	if r.m.reading == 0 {
		r.letGo()
	}
	r.gotData()
}

// letGo gives a canceled caller its outcome while the operation goes on.
func (r *Rxe) letGo() {
	r.err = r.canceled
	r.complete()
	r.err = nil
}

// drops reports whether data that comes is counted and thrown away.
func (r *incoming) drops() bool {
	return r.c.state == CallerLeaving || r.c.Told() || r.ord != nil && r.ord.Req.Flags&Discard != 0
}

// onWithdrawn: the peer took our read out of its line, or was too late.
func (r *Rxe) onWithdrawn(m *peer.Withdrawn) {
	switch {
	case !r.busy || r.RequestID() != m.ID:
	case r.m.State.over(): // it failed meanwhile
		r.settle()
	case r.c.state != CallerWithdrawing:
	case m.OK:
		if r.must(r.c.Step(CallerWithdrawn)) {
			r.fail(r.canceled)
		}
	case r.must(r.c.Step(CallerTooLate)):
		r.beginToLeave(r.canceled)
	}
}

// onRevoke: a region that the operation uses is being closed.
func (r *Rxe) onRevoke(m *mr.Region) {
	if !r.busy || !r.UsesRegion(m) {
		return
	}
	switch {
	case r.ord != nil:
		r.onCancel(&Cancel{ID: r.RequestID(), Err: ErrRegionClosed})
	case r.m.State < RxAnswer: // else all is there, and the peer is yet to be told
		if r.m.Proto != EagerWrite { // the peer waits for no answer to that one
			r.sendError(uint32(errno.ProvRMAAddr))
		}
		if r.step(RxFail) {
			r.ended(ErrRegionClosed)
		}
	}
	if r.busy && r.x != nil && r.m.reading == 0 {
		r.x.ndst = 0
		r.x.doneWith()
	}
}

// step moves the machine; see must.
func (r *Rxe) step(e RxEvent) bool { return r.m.move(e) || r.noStep(e) }

// noStep ends an operation that was to take a step which its machine does not have.
func (r *Rxe) noStep(e RxEvent) bool {
	r.violated(noEdge(e, r.m.State))
	return false
}

// must reports whether a step was in its machine's table, see Txe.must.
func (r *Rxe) must(err error) bool {
	if err != nil {
		r.violated(err)
	}
	return err == nil
}

func (r *Rxe) violated(err error) {
	err = r.pools.violation(r.link, err)
	if r.m.State.over() {
		r.settle()
		return
	}
	r.end(err)
}

// Describe says what message it is, as an outcome has it.
func (r *incoming) Describe(res *Result) {
	// Every field is set, and none twice.
	l := r.link
	res.N, res.Lost, res.Proto, res.Peer = int(r.m.Total), 0, r.m.Proto, l.Handle
	res.Tag, res.Data, res.HasData = r.says.Tag, r.says.Data, r.says.HasData
	res.Err, res.From = nil, &l.Addr
}

// Claim notes that the message is in the matcher no more, and returns the id of
// this use.
func (r *incoming) Claim() uint32 {
	r.unlisted()
	return r.id
}

// Is reports whether the rxe still has the use id.
func (r *incoming) Is(id uint32) bool { return r.busy && r.id == id && !r.m.State.over() }

// IsMessage reports whether it receives a message.
func (r *incoming) IsMessage() bool { return !r.target && (r.ord == nil || r.ord.Req.Kind != KindRead) }

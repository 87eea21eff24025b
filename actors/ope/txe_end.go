package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
)

// onLost: a packet will never arrive; the operation failed for good, and the other
// side would wait for the rest of it.
func (t *Txe) onLost(m *peer.SendFailed) {
	req := t.isREQ(m.Pke)
	t.pools.env.Q.Free(m.Pke)
	if !t.busy {
		return
	}
	if req {
		t.link.Arrived()
	}
	if !t.must(t.m.Lost()) {
		return
	}
	if t.err == nil {
		t.err = m.Err
	}
	t.giveUp()
	t.settle()
}

// fail ends the message with err. Packets with the device are awaited before the
// caller gets its buffer back, unless the device keeps no reference to it.
func (t *Txe) fail(err error) {
	if !t.busy {
		return
	}
	if t.m.State == TxDone {
		t.settle()
		return
	}
	if t.err == nil {
		t.err = err
	}
	if t.m.State != TxErr {
		incomplete := t.incomplete()
		t.must(t.m.Fail())
		if incomplete {
			t.giveUp()
		}
		t.leaveLine()
	}
	if t.m.Flying > 0 && t.outgoing.copied() && !protos[t.m.Proto].rdma {
		t.detachPackets()
		t.complete()
	}
	t.settle()
}

// leaveLine takes an operation that has failed out of its peer's line, so that
// no msg_id is spent on nothing.
func (t *Txe) leaveLine() {
	if t.turn.InLine() && t.link.Err == nil && !t.pools.Closing {
		t.turn.Withdraw(t.link, t.q.ID)
	}
}

// settle gives the outcome if there is one, and frees the txe once nothing refers
// to it any more.
func (t *Txe) settle() {
	if !t.busy || !t.m.Over() || t.m.Flying > 0 {
		return
	}
	t.complete()
	if t.x != nil {
		t.servedRead()
		t.x.letMemoryGo(t.pools)
	}
	if t.slotWaits || t.moreQueued || t.hold.Queued() || t.turn.InLine() {
		return
	}
	if t.abortDue {
		t.abortDue = false
		t.abortPeer()
	}
	t.release()
}

// complete gives the outcome, once. What the peer reads after that it discards.
func (t *Txe) complete() {
	if t.x != nil {
		t.x.unlend(t.pools)
	}
	if !t.c.Told() {
		t.tell(CallerOutcome)
	}
}

// tell gives the outcome by an event that ends the caller's waiting.
func (t *Txe) tell(e CallerEvent) {
	if !t.c.move(e) {
		t.violated(noEdge(e, t.c.state))
		return
	}
	t.handSent()
}

// handSent counts the outcome and gives it to the sink.
func (t *Txe) handSent() {
	q, p := t.q, t.pools
	s, r := q.Sink, &p.sent
	q.Sink, r.Err = nil, t.err
	r.Proto, r.N = t.m.Proto, int(t.m.Total)
	if t.err != nil || t.turn.Span != 0 || q.Kind == KindAtomic {
		t.handUnusual(s)
		return
	}
	p.Tally.succeed(q.Kind, t.m.Total)
	s.Done(q, r)
}

// handUnusual is the rest of handSent for an outcome that has something unusual.
func (t *Txe) handUnusual(s Sink) {
	q, p := t.q, t.pools
	r := &p.sent
	switch {
	case t.err != nil:
		r.N = int(t.m.Acked)
	case q.Kind == KindAtomic:
		r.N = len(q.Buf)
	}
	p.env.Trail.Outcome(t.turn.Span, trail.Told, uint64(r.N), t.err)
	p.Tally.Count(q.Kind, uint64(r.N), t.err)
	s.Done(q, r)
}

// delivered is settle of a message that has arrived as a whole when it was posted. If it never had to
// wait, nothing has happened to it, and nobody has heard of it but its caller.
func (t *Txe) delivered() {
	if t.ord != nil || t.x != nil || t.gathers != 0 || t.turn.Span != 0 {
		if t.turn.Span != 0 {
			t.leave(trail.Acked, 0, t.m.Acked, 0)
		}
		t.settle()
		return
	}
	if !t.c.move(CallerOutcome) {
		t.settle()
		return
	}
	t.handSent()
	t.freeTx()
}

func (t *Txe) release() {
	if t.ord != nil || t.x != nil || t.gathers != 0 || t.turn.Span != 0 || t.reads {
		t.giveBack()
	}
	t.member.Leave()
	t.err, t.base, t.slot.Control = nil, 0, false
	t.freeTx()
}

// freeTx makes the txe ready for its next use.
func (t *Txe) freeTx() {
	t.id = nextID(t.id)
	t.busy = false
	t.marks = marks{}
	t.m.Reset()
	t.c.Start(true)
	p := t.pools
	t.q, t.link, t.next, p.txFree = nil, nil, p.txFree, t
}

// giveBack is what release has to do for an operation that has waited, or has more than a message
// in a packet has.
func (t *Txe) giveBack() {
	if t.turn.Span != 0 {
		t.pools.env.Trail.Outcome(t.turn.Span, trail.End, t.m.Acked, t.err)
		t.turn.Span = 0
	}
	t.notReading()
	if x := t.x; x != nil {
		t.x = nil
		t.turn.Over(t.link)
		t.pools.putTxExt(x, t.link)
	}
	if t.c.state == CallerDetached {
		t.pools.detached -= uint64(len(t.q.Buf))
	}
	if t.gathers != 0 {
		t.q.PutLists()
	}
	if t.ord != nil {
		t.pools.Orders.Put(t.ord)
		t.ord = nil
	}
}

// panicked: a handler of this operation panicked; it ends with an error, and the
// other operations go on.
func (t *Txe) panicked() {
	if !t.busy {
		return
	}
	t.note(trail.Restarted, 0, 0, 0)
	t.fail(ErrInternal)
}

// must reports whether a step was in its machine's table, and ends the operation if it
// was not: that is an error in this package, never the peer's.
func (t *Txe) must(err error) bool {
	if err != nil {
		t.violated(err)
	}
	return err == nil
}

func (t *Txe) violated(err error) { t.fail(t.pools.violation(t.link, err)) }

// violation counts a step that no table has, of an operation with l, and returns the error of its operation.
func (p *Pools) violation(l *peer.Link, err error) error {
	p.env.Counters.Violations++
	p.env.LogOf(l).Error("a step that its machine does not have", "err", err)
	return fmt.Errorf("%w: %w", ErrInternal, err)
}

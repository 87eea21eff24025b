package ope

import (
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
	t.m.Lost()
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
		t.m.Fail()
		if incomplete {
			t.giveUp()
		}
		t.leaveLine()
	}
	if t.m.Flying > 0 && t.pools.Info.CopiesAtPost && !protos[t.m.Proto].rdma {
		t.detach()
	}
	t.settle()
}

// leaveLine takes an operation that has failed out of its peer's line, lest a
// msg_id is spent on nothing.
func (t *Txe) leaveLine() {
	if t.turn.InLine() && t.link.Err == nil && !t.pools.Closing {
		t.pools.env.Sh.Tell(t.link.Peer, &peer.Withdraw{Turn: &t.turn, ID: t.ord.Req.ID})
	}
}

// settle gives the outcome if there is one, and frees the txe once nothing refers
// to it any more.
func (t *Txe) settle() {
	if !t.busy || (t.m.State != TxDone && t.m.State != TxErr) {
		return
	}
	if t.m.Flying == 0 || t.detached {
		t.complete()
	}
	if t.m.Flying == 0 && t.x != nil {
		t.x.doneWith()
	}
	if t.m.Flying > 0 || t.slotWaits || t.moreQueued || t.hold.Queued() || t.turn.InLine() {
		return
	}
	if t.farewell {
		t.farewell = false
		t.sayFarewell()
	}
	t.release()
}

func (t *Txe) complete() {
	s := t.ord.Req.Sink
	if s == nil {
		return
	}
	r := &t.pools.res
	*r = Result{}
	r.Proto, r.Err, r.N = t.m.Proto, t.err, int(t.m.Total)
	if q := &t.ord.Req; q.Kind == KindAtomic {
		r.N = len(q.Buf)
	}
	if t.err != nil {
		r.N = int(t.m.Acked)
	}
	t.pools.env.Trail.Outcome(t.turn.Span, trail.Told, uint64(r.N), t.err)
	t.pools.Tally.Count(t.ord.Req.Kind, uint64(r.N), t.err)
	t.ord.Req.Sink = nil
	s.Done(&t.ord.Req, r)
	t.ord.Req.Token = nil
}

func (t *Txe) release() {
	t.pools.env.Trail.Outcome(t.turn.Span, trail.End, t.m.Acked, t.err)
	t.turn.Span = 0
	t.notReading()
	if x := t.x; x != nil {
		t.x = nil
		t.pools.putTxExt(x, t.link)
	}
	t.member.Leave()
	t.id = nextID(t.id)
	if t.ord.copied {
		t.pools.detached -= uint64(len(t.ord.Req.Buf))
	}
	t.pools.Orders.Put(t.ord)
	t.busy, t.ord, t.link, t.err = false, nil, nil, nil
	t.next, t.pools.txFree = t.pools.txFree, t
}

// panicked: a handler of this operation panicked; the operation ends with an
// error and the others live on.
func (t *Txe) panicked() {
	if !t.busy {
		return
	}
	t.note(trail.Restarted, 0, 0, 0)
	t.fail(ErrInternal)
}

package ope

import (
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
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
	if r.m.State == RxAnswer { // the outcome was given; nobody is to be told
		r.owes = 0
		_ = r.m.Step(RxAnswered)
		r.settle()
		return
	}
	r.end(err)
}

// onAbandon: the queue pair is closed. Nothing that is under way ever ends, and no
// receive will come for a message that waits.
func (r *Rxe) onAbandon(err error) {
	r.flying, r.m.reading, r.owes = 0, 0, 0
	if !r.busy || r.m.State.over() {
		r.settle()
		return
	}
	r.end(err)
}

func (r *Rxe) end(err error) {
	if r.err == nil {
		r.err = err
	}
	r.owes = 0
	if r.asks() && r.rsp && r.link.Err == nil { // the responder waits for CTS
		r.sendError(uint32(errno.ProvPeerAborted))
	}
	_ = r.m.Step(RxFail) // from every state before RXE_DONE
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
		r.pools.env.Sh.Tell(r.link.Peer, &peer.Withdraw{Turn: &x.turn, ID: r.RequestID()})
	}
	if r.x != nil && (r.x.nacked || r.x.refusing) && r.ord != nil {
		r.pools.env.Sh.Tell(r.link.Peer, &peer.Nacked{MsgID: r.msgID})
	}
	r.settle()
}

// onCancel lets the caller go: nothing is written to its buffer from now on, what
// comes is received to its end and thrown away, so that the sender completes. RDMA
// reads that the device has are awaited.
func (r *Rxe) onCancel(m *Cancel) {
	if !r.busy || r.done || r.RequestID() != m.ID {
		return
	}
	if r.x != nil && r.x.turn.InLine() {
		r.err = m.Err
		r.pools.env.Sh.Tell(r.link.Peer, &peer.Withdraw{Turn: &r.x.turn, ID: m.ID})
		return
	}
	if r.m.State.over() {
		return // only the device is awaited
	}
	if r.m.Proto == DirectRead {
		r.m.StopReading()
		r.end(m.Err)
		return
	}
	r.m.Forgo() // nobody wants what was not read yet
	r.drop = true
	if r.m.reading > 0 {
		r.x.canceled = m.Err
		return
	}
	r.letGo(m.Err)
	r.checkComplete()
	r.goOn()
}

// letGo gives a canceled caller its outcome while the operation goes on.
func (r *Rxe) letGo(err error) {
	r.err = err
	r.complete()
	r.err = nil
}

// onWithdrawn: the peer took our read out of its line, or was too late.
func (r *Rxe) onWithdrawn(m *peer.Withdrawn) {
	if !r.busy || r.RequestID() != m.ID {
		return
	}
	if r.m.State.over() { // it failed meanwhile
		r.settle()
		return
	}
	if r.done || r.err == nil {
		return
	}
	err := r.err
	if r.err = nil; m.OK {
		r.fail(err)
		return
	}
	r.onCancel(&Cancel{ID: m.ID, Err: err})
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
		if r.m.Proto != EagerWrite { // which nobody waits for
			r.sendError(uint32(errno.ProvRMAAddr))
		}
		r.end(ErrRegionClosed)
	}
	if r.busy && r.x != nil && r.m.reading == 0 {
		r.drop = true
		r.x.ndst = 0
		r.x.doneWith()
	}
}

func (r *Rxe) release() {
	r.noteReceived()
	r.pools.env.Trail.Outcome(r.span, trail.End, min(r.m.Got+r.m.read, r.m.Total), r.err)
	r.span = 0
	if r.x != nil {
		x := r.x
		r.x = nil
		r.pools.putRxExt(x, r.link)
	}
	r.member.Leave()
	r.id = nextID(r.id)
	if r.ord != nil {
		r.pools.Orders.Put(r.ord)
	}
	r.busy, r.ord, r.link, r.err = false, nil, nil, nil
	r.next, r.pools.rxFree = r.pools.rxFree, r
}

// Describe says what message it is, as an outcome has it.
func (r *Rxe) Describe(res *Result) {
	*res = Result{}
	res.N, res.Proto, res.Peer, res.From = int(r.m.Total), r.m.Proto, r.link.Handle, &r.link.Addr
	res.Tag, res.Data, res.HasData = r.tag, r.data, r.hasData
}

// Claim notes that the message is in the matcher no more, and returns the id of
// this use.
func (r *Rxe) Claim() uint32 {
	r.unlisted()
	return r.id
}

// Is tells whether the rxe still has the use id.
func (r *Rxe) Is(id uint32) bool { return r.busy && r.id == id && !r.m.State.over() }

// IsMessage tells whether it receives a message.
func (r *Rxe) IsMessage() bool { return !r.target && (r.ord == nil || r.ord.Req.Kind != KindRead) }

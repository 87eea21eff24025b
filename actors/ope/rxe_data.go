package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

func protoOf(p *peer.Packet) Proto {
	switch p.Type {
	case wire.TypeMediumMsgRTM, wire.TypeMediumTagRTM:
		return Medium
	case wire.TypeLongCTSMsgRTM, wire.TypeLongCTSTagRTM:
		return LongCTS
	default:
		return Eager
	}
}

// take copies a packet's payload to its place in the application's buffer; what
// has no room there is dropped (truncation).
func (r *Rxe) take(p *peer.Packet) {
	n := uint64(len(p.Payload))
	if err := r.m.Take(p.Offset, n, p.Type == wire.TypeCTSData); err != nil {
		r.pools.env.Counters.BadLength++
		segment := p.Multi != nil
		p.Free()
		if segment {
			// Its peer counts it as come, so the rest would never be enough.
			r.fail(fmt.Errorf("%w: %w", errno.ErrIO, err))
		}
		return
	}
	if room := uint64(len(r.ord.Req.Buf)); !r.drop && p.Offset < room {
		copy(r.ord.Req.Buf[p.Offset:], p.Payload)
	}
	p.Free()
	if r.m.Complete() {
		_ = r.m.Step(RxLast) // from RXE_MATCHED, which take is called in
	}
}

// grant posts a CTS if one is due. CTS cannot be rebuilt by anybody else, so it
// waits for room before data does.
func (r *Rxe) grant() {
	env := r.pools.env
	n := r.m.Grant(uint64(r.pools.Policy.Credits) * uint64(env.MTU-ctsDataHeader))
	if n == 0 {
		return
	}
	if r.link.Backoff {
		r.hold.Await(r.link, r.ref, true)
		return
	}
	p := env.Q.Alloc()
	if p == nil {
		r.slotWaits = true
		env.Q.AwaitSlot(&r.slot)
		return
	}
	c := wire.CTS{
		HasConnID: true, ConnID: env.Addr.ConnID(),
		SendID: r.sendID, RecvID: r.id, RecvLength: n,
	}
	p.Fill(c.Append(p.Header()), nil)
	r.link.Address(p, r.ref)
	if err := env.Q.Post(p); err != nil {
		env.Q.Free(p)
		r.fail(err)
		return
	}
	r.flying++
	r.m.Granted(n)
	env.Counters.PacketsSent[wire.TypeCTS]++
}

// settle gives the outcome if there is one, and frees the rxe once nothing refers
// to it any more.
func (r *Rxe) settle() {
	if !r.busy || r.m.State < RxDone {
		return
	}
	r.complete()
	if r.flying == 0 && !r.slotWaits && r.told == 0 && !r.hold.Queued() {
		r.release()
	}
}

func (r *Rxe) complete() {
	if r.done || r.ord == nil {
		return
	}
	q := &r.ord.Req
	r.done = true
	placed := min(r.m.Total, uint64(len(q.Buf)))
	res := &r.pools.res
	*res = Result{
		N: int(placed), Proto: r.m.Proto, Peer: r.link.Handle, From: &r.link.Addr,
		Tag: r.tag, Data: r.data, HasData: r.hasData,
	}
	switch {
	case r.err != nil:
		res.Err, res.N = r.err, 0
	case r.m.Total > placed:
		res.Lost = int(r.m.Total - placed)
		res.Err = &Truncated{Placed: res.N, Lost: res.Lost}
	}
	q.Sink.Done(q, res)
	q.Token, q.Buf, q.More = nil, nil, nil
}

// fail ends the message. If a receive has matched it, that gets the error. A
// message that is here in full can still be received although its sender is gone.
func (r *Rxe) fail(err error) {
	if !r.busy || r.m.State >= RxDone {
		r.settle()
		return
	}
	if r.m.State < RxMatched && r.stored == r.m.Total {
		return
	}
	r.end(err)
}

// onAbandon: the queue pair is closed. Nothing that is under way ever ends, and no
// receive will come for a message that waits.
func (r *Rxe) onAbandon(err error) {
	r.flying = 0
	if !r.busy || r.m.State >= RxDone {
		r.settle()
		return
	}
	r.end(err)
}

func (r *Rxe) end(err error) {
	r.err = err
	_ = r.m.Step(RxFail) // from every state before RXE_DONE
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
	r.settle()
}

// onCancel lets the caller go: nothing is written to its buffer from now on, the
// message is received to its end and thrown away, so that the sender completes.
func (r *Rxe) onCancel(m *Cancel) {
	if !r.busy || r.done || r.RequestID() != m.ID {
		return
	}
	r.err, r.drop = m.Err, true
	r.complete()
	r.err = nil
}

func (r *Rxe) release() {
	r.member.Leave()
	r.id = nextID(r.id)
	if r.ord != nil {
		r.pools.Orders.Put(r.ord)
	}
	r.busy, r.ord, r.link, r.err = false, nil, nil, nil
	r.next, r.pools.rxFree = r.pools.rxFree, r
}

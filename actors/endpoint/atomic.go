package endpoint

import (
	"fmt"

	"github.com/efactor/efactor/actors/atomics"
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// onAtomic carries out an atomic on each piece of memory that it names, and answers. It is
// called in the order of the messages.
func (a *access) onAtomic(pkt *peer.Packet) {
	x, form := pkt.Ext, atomics.FormOf(pkt.Type)
	to, ok := a.resolve(pkt, atomicNeeds(form, x.Op))
	if !ok {
		return
	}
	ran := false // else there was no place for the answer
	run := func(result []byte) error {
		ran = true
		return apply(pkt, form, to, result)
	}
	var err error
	switch {
	case !atomics.Valid(x.Op, x.Datatype, form):
		err = fmt.Errorf("%w: %s on %s", errno.ErrNotSupported, x.Op, x.Datatype)
	case form != atomics.Write:
		if pkt.Length > uint64(a.env.MTU-wire.ATOMRSPLen) {
			err = errno.ErrMsgSize
			break
		}
		err = a.pools.RespondAtomic(pkt, int(pkt.Length), run)
	default:
		span := a.followAtomic(pkt)
		if err = run(nil); err == nil && pkt.Type.IsDC() {
			a.env.Trail.Put(span, trail.Answer, uint8(wire.TypeReceipt), 0, 0)
			a.pools.SendReceipt(pkt.Link, pkt.SendID)
		}
		a.env.Trail.Outcome(span, trail.End, pkt.Length, err)
	}
	if err != nil {
		a.deny(pkt, err, errno.ProvInvalidDatatype)
		return
	}
	if ran {
		a.served(pkt, form, to)
	}
}

// atomicNeeds gives the rights that an atomic needs: to change memory, and to learn what is
// in it.
func atomicNeeds(form atomics.Form, op wire.AtomicOp) mr.Access {
	switch {
	case form == atomics.Write:
		return device.RemoteWrite
	case op == wire.OpRead:
		return device.RemoteRead
	default:
		return device.RemoteRead | device.RemoteWrite
	}
}

// followAtomic begins the records of a peer's atomic that fetches nothing, and returns
// their span.
func (a *access) followAtomic(pkt *peer.Packet) uint64 {
	proto := ope.WriteAtomic
	if pkt.Type.IsDC() {
		proto = ope.DCWriteAtomic
	}
	a.pools.Mix.Served[proto]++
	l := a.env.Trail
	if l == nil {
		return 0
	}
	span := l.Next()
	l.Put(span, trail.Begin, uint8(trail.TargetAtomic), pkt.Length, 0)
	l.Put(span, trail.With, 0, pkt.Link.Span, 0)
	l.Put(span, trail.Chosen, uint8(proto), trail.Connids(pkt.Link.QKey, a.env.Addr.ConnID()), pkt.MsgID)
	return span
}

// apply carries out an atomic on memory, piece by piece. A fetch that only reads may come
// without an operand.
func apply(pkt *peer.Packet, form atomics.Form, to []ope.Target, result []byte) error {
	x, operand := pkt.Ext, pkt.Payload
	var compare []byte
	if form == atomics.Compare {
		half := len(operand) / 2
		operand, compare = operand[:half], operand[half:]
	}
	for _, t := range to {
		n := len(t.Mem)
		cut := func(b []byte) []byte { return b[:min(n, len(b))] }
		if !t.Region.Use() {
			return mr.ErrKey
		}
		err := atomics.Apply(x.Op, x.Datatype, form, t.Mem, cut(operand), cut(compare), cut(result))
		t.Region.Done()
		if err != nil {
			return err
		}
		operand, compare, result = operand[len(cut(operand)):], compare[len(cut(compare)):], result[len(cut(result)):]
	}
	return nil
}

package endpoint

import (
	"errors"
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

// errDevice is the cause of an AccessRefused of which only the device knows more.
var errDevice = errors.New("refused by the device: key, range or right")

// onAccess: a peer asks for memory of ours (§3.3), or takes a message back. Writes
// and reads come in any order, atomics in that of the messages.
func (e *Endpoint) onAccess(pkt *peer.Packet) {
	t := pkt.Type
	switch {
	case t == wire.TypePeerError:
		e.onAborted(pkt)
	case e.state != open || pkt.Link.Err != nil:
		pkt.Free()
	case t.IsRTW():
		e.onWrite(pkt)
	case t.IsRTR():
		if to, ok := e.resolve(pkt, device.RemoteRead); ok {
			e.pools.RespondRead(pkt, to)
		}
		pkt.Free()
	default:
		e.onAtomic(pkt)
		pkt.Free()
	}
}

// resolve finds the memory that a request names, or refuses it.
func (e *Endpoint) resolve(pkt *peer.Packet, want mr.Access) ([]ope.Target, bool) {
	x := pkt.Ext
	for i := range x.RMA[:x.NRMA] {
		r, mem, err := e.cfg.Regions.Resolve(x.RMA[i], want)
		if err != nil {
			e.deny(pkt, err, errno.ProvRMAAddr)
			return nil, false
		}
		e.targets[i] = ope.Target{Region: r, Mem: mem}
	}
	return e.targets[:x.NRMA], true
}

// deny refuses a request: it is counted, the application may see it as an event,
// and a requester that waits and knows PEER_ERROR is told. One that has tried too
// many keys is failed.
func (e *Endpoint) deny(pkt *peer.Packet, err error, code errno.Provider) {
	e.env.Counters.Refused++
	l := pkt.Link
	if errors.Is(err, mr.ErrKey) && !e.namesFormer(pkt) {
		l.WrongKey()
	}
	e.intruded(l, fmt.Errorf("%s of %d bytes: %w", pkt.Type, pkt.Length, err))
	id := pkt.SendID
	switch t := pkt.Type; {
	case t == wire.TypeEagerRTW, t == wire.TypeWriteRTA:
		return // nobody waits
	case t.IsRTR(), t == wire.TypeFetchRTA, t == wire.TypeCompareRTA:
		id = pkt.RecvID
	}
	e.pools.SendError(l, wire.RefOpe, id, uint32(code))
}

// namesFormer tells whether a request names a region that was closed lately, and
// not one that was guessed.
func (e *Endpoint) namesFormer(pkt *peer.Packet) bool {
	for _, iov := range pkt.Ext.RMA[:pkt.Ext.NRMA] {
		if e.cfg.Regions.Retired(uint32(iov.Key)) {
			return true
		}
	}
	return false
}

// onIntruded: the device refused a request. Only a key that names nothing is a guess.
func (e *Endpoint) onIntruded(m *peer.Intruded) {
	if !e.cfg.Regions.Knows(m.Key) {
		m.Link.WrongKey()
	}
	e.intruded(m.Link, errDevice)
}

func (e *Endpoint) intruded(l *peer.Link, err error) {
	e.event(Event{Kind: AccessRefused, Handle: l.Handle, Addr: l.Addr, Path: l.Path, Err: err})
}

func (e *Endpoint) onWrite(pkt *peer.Packet) {
	to, ok := e.resolve(pkt, device.RemoteWrite)
	if !ok {
		pkt.Free()
		return
	}
	rxe := e.pools.GetRx()
	if rxe == nil {
		e.env.Counters.BadID++ // all in use
		pkt.Free()
		return
	}
	if m := rxe.Write(pkt, to); m != nil {
		e.cfg.Shard.Tell(rxe.Ref(), m)
	}
}

// onAtomic carries out an atomic on each piece of memory that it names, in its
// turn among the messages, and answers.
func (e *Endpoint) onAtomic(pkt *peer.Packet) {
	x, form := pkt.Ext, atomics.FormOf(pkt.Type)
	want := device.RemoteWrite
	if form != atomics.Write {
		want = device.RemoteRead
	}
	to, ok := e.resolve(pkt, want)
	if !ok {
		return
	}
	run := func(result []byte) error { return apply(pkt, form, to, result) }
	var err error
	switch {
	case !atomics.Valid(x.Op, x.Datatype, form):
		err = fmt.Errorf("%w: %s on %s", errno.ErrNotSupported, x.Op, x.Datatype)
	case form != atomics.Write:
		if pkt.Length > uint64(e.env.MTU-wire.ATOMRSPLen) {
			err = errno.ErrMsgSize
			break
		}
		err = e.pools.RespondAtomic(pkt, int(pkt.Length), run)
	default:
		span := e.followAtomic(pkt)
		if err = run(nil); err == nil && pkt.Type.IsDC() {
			e.env.Trail.Put(span, trail.Answer, uint8(wire.TypeReceipt), 0, 0)
			e.pools.SendReceipt(pkt.Link, pkt.SendID)
		}
		e.env.Trail.Outcome(span, trail.End, pkt.Length, err)
	}
	if err != nil {
		e.deny(pkt, err, errno.ProvInvalidDatatype)
	}
}

// followAtomic begins the trail of an atomic of the peer's that fetches nothing.
func (e *Endpoint) followAtomic(pkt *peer.Packet) uint64 {
	proto := ope.WriteAtomic
	if pkt.Type.IsDC() {
		proto = ope.DCWriteAtomic
	}
	e.pools.Mix.Served[proto]++
	l := e.env.Trail
	if l == nil {
		return 0
	}
	span := l.Next()
	l.Put(span, trail.Begin, uint8(trail.TargetAtomic), pkt.Length, 0)
	l.Put(span, trail.With, 0, pkt.Link.Span, 0)
	l.Put(span, trail.Chosen, uint8(proto), trail.Connids(pkt.Link.QKey, e.addr.ConnID()), pkt.MsgID)
	return span
}

// apply runs an atomic. A fetch that only reads may come without an operand.
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

// onAborted: a peer takes a message back of which we have seen the first packet
// (PEER_ERROR). It is looked for among the operations in progress: that is rare.
func (e *Endpoint) onAborted(pkt *peer.Packet) {
	var found *ope.Rxe
	if pkt.Link.Misses > maxMisses {
		pkt.Free()
		return
	}
	e.pools.EachRx(func(r *ope.Rxe) {
		if r.Link() == pkt.Link && r.MsgID() == pkt.MsgID && r.IsMessage() {
			found = r
		}
	})
	if found == nil {
		pkt.Link.Misses++
		pkt.Free() // it was complete
		return
	}
	e.cfg.Shard.Tell(found.Ref(), pkt.Deliver())
}

// maxMisses is how many of a peer's messages are looked for in vain before its
// PEER_ERRORs by msg_id are passed over: each costs a walk.
const maxMisses = 1000

// Revoke ends the operations that use a region which is being closed, or whose
// buffer lies in it; those have it in use from now on. The caller has too, until
// Revoke returns. Runs on the shard.
func (e *Endpoint) Revoke(r *mr.Region) {
	if e.state == stopped {
		return
	}
	sh := e.cfg.Shard
	e.pools.EachTx(func(t *ope.Txe) {
		if t.Concerns(r) {
			sh.Tell(t.Ref(), &ope.Revoke{Region: r})
		}
	})
	e.pools.EachRx(func(x *ope.Rxe) {
		if x.Concerns(r) {
			sh.Tell(x.Ref(), &ope.Revoke{Region: r})
		}
	})
	e.failReceives(func(o *ope.Order) bool { return !ope.Overlap(r.Bytes(), o.Req.Buf) }, ope.ErrRegionClosed)
	if r.Access()&(device.RemoteRead|device.RemoteWrite) == 0 {
		return
	}
	for _, m := range e.routes.byAH {
		for _, x := range m {
			if x.cur != nil {
				x.cur.Pardon()
			}
		}
	}
}

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

// access is what peers may do with the domain's memory regions (§3.3). It checks each
// request for memory, refuses it, or begins the operation that carries it out; atomics it
// carries out itself. It owns nothing but scratch for the request in hand.
//
// The endpoint passes it the peers' requests that are no messages, in the order of the
// messages, and the device's reports of refused accesses.
type access struct {
	env     *peer.Env
	pools   *ope.Pools
	regions *mr.Table
	peers   *peers
	starved *starved
	closing *closing
	event   func(Event)
	refuse  Refusals

	targets [wire.MaxIOV]ope.Target // of the request in hand
}

// errDevice is the cause of an AccessRefused that the device reports, which does not say
// what was wrong.
var errDevice = errors.New("refused by the device: key, range or right")

// onRequest takes a request for memory, a PEER_ERROR for a message that has begun, or what a
// peer has answered to an operation that has ended, of which it hears then.
func (a *access) onRequest(pkt *peer.Packet) {
	switch t := pkt.Type; {
	case t == wire.TypePeerError && pkt.Emitter == wire.EmitterRX:
		a.abortSend(pkt)
	case t == wire.TypePeerError:
		a.abortReceive(pkt)
	case t == wire.TypeCTS:
		a.over(pkt, pkt.RecvID)
	case t == wire.TypeREADRSP:
		a.over(pkt, pkt.SendID)
	case a.closing.state != open || pkt.Link.Err != nil:
		pkt.Free()
	default:
		a.carryOut(pkt)
	}
}

// carryOut takes a request for memory.
func (a *access) carryOut(pkt *peer.Packet) {
	switch t := pkt.Type; {
	case a.forbids(pkt):
		pkt.Free()
	case a.starved.takes(pkt):
	case t.IsRTW():
		a.onWrite(pkt)
	case t.IsRTR():
		if from, ok := a.resolve(pkt, device.RemoteRead); ok {
			a.pools.RespondRead(pkt, from)
		}
		pkt.Free()
	default:
		a.onAtomic(pkt)
		pkt.Free()
	}
}

// Refusals are the accesses that peers may not make through an endpoint, whatever the rights
// of the memory that they name.
type Refusals uint8

// The accesses.
const (
	RefuseReads Refusals = 1 << iota
	RefuseWrites
	RefuseAtomics
)

// forbids reports whether a request is one that the endpoint refuses, and refuses it. One that
// names no memory and has no data does nothing.
func (a *access) forbids(pkt *peer.Packet) bool {
	if a.refuse == 0 || pkt.Ext.NRMA == 0 && !pkt.HasData {
		return false
	}
	kind := RefuseAtomics
	switch {
	case pkt.Type.IsRTR():
		kind = RefuseReads
	case pkt.Type.IsRTW():
		kind = RefuseWrites
	}
	if a.refuse&kind == 0 {
		return false
	}
	a.deny(pkt, fmt.Errorf("%w: the endpoint is no target of it", mr.ErrRight), errno.ProvRMAAddr)
	return true
}

// onWrite begins an emulated write: the rxe takes its data.
func (a *access) onWrite(pkt *peer.Packet) {
	to, ok := a.resolve(pkt, device.RemoteWrite)
	if !ok {
		pkt.Free()
		return
	}
	a.pools.Begin(pkt).Write(pkt, to)
}

// resolve finds the memory that a request names. False: the request was refused.
func (a *access) resolve(pkt *peer.Packet, want mr.Access) ([]ope.Target, bool) {
	x := pkt.Ext
	for i := range x.RMA[:x.NRMA] {
		r, mem, err := a.regions.Resolve(pkt.Link.Path, x.RMA[i], want)
		if err != nil {
			a.deny(pkt, err, errno.ProvRMAAddr)
			return nil, false
		}
		a.targets[i] = ope.Target{Region: r, Mem: mem}
	}
	return a.targets[:x.NRMA], true
}

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
		a.reportAtomic(pkt, form, to)
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

// over tells a peer that an operation has ended which it knows by an id of its own.
func (a *access) over(pkt *peer.Packet, id uint32) {
	if !a.pools.SendOver(pkt.Link, id) {
		a.env.Counters.BadID++
	}
	pkt.Free()
}

// abortReceive takes a PEER_ERROR by which a peer takes a message back of which the first
// packet was received. A message that is not found was complete.
func (a *access) abortReceive(pkt *peer.Packet) {
	l := pkt.Link
	var found *ope.Rxe
	removed := len(a.starved.pkts) > 0 && a.starved.remove(l, pkt.MsgID)
	if l.MaySearch() {
		a.pools.EachRx(func(r *ope.Rxe) {
			if r.Link() == l && r.MsgID() == pkt.MsgID && r.IsMessage() {
				found = r
			}
		})
		if found == nil && !removed {
			l.NotFound()
		}
	}
	if found == nil {
		pkt.Free()
		return
	}
	a.env.Sh.Tell(found.Ref(), pkt.Deliver())
}

// abortSend takes a PEER_ERROR by which a peer gives up a message of ours, which it names by its
// msg_id alone.
func (a *access) abortSend(pkt *peer.Packet) {
	l := pkt.Link
	var found *ope.Txe
	if l.MaySearch() {
		a.pools.EachTx(func(t *ope.Txe) {
			if t.Sends(l, pkt.MsgID) {
				found = t
			}
		})
		if found == nil {
			l.NotFound()
		}
	}
	if found == nil {
		pkt.Free()
		return
	}
	a.env.Sh.Tell(found.Ref(), pkt.Deliver())
}

// deny refuses a request: it counts it, reports it as an event, and tells a requester
// that waits and knows PEER_ERROR. A peer that tries too many wrong keys is failed.
func (a *access) deny(pkt *peer.Packet, err error, code errno.Provider) {
	a.env.Counters.Refused++
	l := pkt.Link
	if errors.Is(err, mr.ErrKey) && !a.namesFormer(pkt) {
		l.WrongKey()
	}
	a.report(l, fmt.Errorf("%s of %d bytes: %w", pkt.Type, pkt.Length, err))
	id := pkt.SendID
	switch t := pkt.Type; {
	case t == wire.TypeEagerRTW, t == wire.TypeWriteRTA:
		return // the requester does not wait
	case t.IsRTR(), t == wire.TypeFetchRTA, t == wire.TypeCompareRTA:
		id = pkt.RecvID
	}
	a.pools.SendError(l, &ope.Abort{MsgID: pkt.MsgID, OpID: id, Emitter: wire.EmitterRX, Memory: true, Errno: code})
}

// namesFormer reports whether a request names a region that was closed lately, so that its
// key is no guess.
func (a *access) namesFormer(pkt *peer.Packet) bool {
	for _, iov := range pkt.Ext.RMA[:pkt.Ext.NRMA] {
		if a.regions.RetiredName(pkt.Link.Path, iov) {
			return true
		}
	}
	return false
}

// onIntruded takes the device's report that it refused an access of a peer's. Only a key
// that names nothing counts as a guess.
func (a *access) onIntruded(m *peer.Intruded) {
	if m.Guess {
		m.Link.WrongKey()
	}
	a.report(m.Link, errDevice)
}

// onUnlistedRefused takes the device's report that it refused an access by a queue pair
// at which it knows no peer.
func (a *access) onUnlistedRefused(m *device.Refused) {
	if l := a.peers.now(m.AH, m.QPN, m.GID); l != nil {
		a.env.Sh.Tell(l.Peer, m)
		return
	}
	a.env.Counters.Refused++
	a.event(Event{Kind: AccessRefused, Handle: peer.Unlisted, Err: errDevice})
}

func (a *access) report(l *peer.Link, err error) {
	a.event(Event{Kind: AccessRefused, Handle: l.Handle, Addr: l.Addr, Path: l.Path, Err: err})
}

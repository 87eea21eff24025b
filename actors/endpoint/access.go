package endpoint

import (
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
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
	case t == wire.TypePeerError:
		abortReceive(a.env, a.pools, pkt)
	case t == wire.TypeCTS:
		a.over(pkt, pkt.RecvID)
	case t == wire.TypeREADRSP:
		a.over(pkt, pkt.SendID)
	case a.closing.state != open || pkt.Link.Err != nil:
		pkt.Free()
	case a.forbidden(pkt):
		pkt.Free()
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

// over tells a peer that an operation has ended which it knows by an id of its own.
func (a *access) over(pkt *peer.Packet, id uint32) {
	if !a.pools.SendError(pkt.Link, wire.RefOpe, id, uint32(errno.ProvPeerAborted)) {
		a.env.Counters.BadID++
	}
	pkt.Free()
}

// onWrite begins an emulated write: the rxe takes its data.
func (a *access) onWrite(pkt *peer.Packet) {
	to, ok := a.resolve(pkt, device.RemoteWrite)
	if !ok {
		pkt.Free()
		return
	}
	rxe := a.pools.Begin(pkt)
	if rxe == nil {
		a.env.Counters.NoRoom++
		pkt.Free()
		return
	}
	rxe.Write(pkt, to)
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
	a.pools.SendError(l, wire.RefOpe, id, uint32(code))
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
	if !a.regions.Knows(m.Link.Path, m.Key) {
		m.Link.WrongKey()
	}
	a.report(m.Link, errDevice)
}

// onStrangersRefusal takes the device's report that it refused an access by a queue pair
// for which it has no address handle.
func (a *access) onStrangersRefusal(m *device.Refused) {
	if l := a.peers.at(m.GID, m.QPN); l != nil {
		a.env.Sh.Tell(l.Peer, m)
		return
	}
	a.env.Counters.Refused++
	a.event(Event{Kind: AccessRefused, Handle: peer.Unlisted, Err: errDevice})
}

func (a *access) report(l *peer.Link, err error) {
	a.event(Event{Kind: AccessRefused, Handle: l.Handle, Addr: l.Addr, Path: l.Path, Err: err})
}

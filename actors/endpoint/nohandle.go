package endpoint

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
)

// knownAt finds the peer now at a queue pair for which the device has no address
// handle although we have: as much as the handle would have told. Releases until 1.13
// do not say in all their packets who they are. nil: nobody, or no GID is known.
func (e *Endpoint) knownAt(gid device.GID, qpn uint16) *peer.Link {
	if gid == (device.GID{}) {
		return nil
	}
	for _, m := range e.routes.byAH {
		if x := m[qpn]; x != nil && x.cur != nil && x.cur.Addr.GID() == gid {
			return x.cur
		}
	}
	return nil
}

// onNameless: a packet that does not say whose it is, from somewhere that the device
// has no address handle for.
func (e *Endpoint) onNameless(r *device.RecvPkt) {
	if l := e.knownAt(r.GID, r.QPN); r.AH == device.UnknownAH && l != nil {
		e.cfg.Shard.Tell(l.Peer, r.Arrived())
		return
	}
	e.env.Counters.NoAddress++
	r.Release()
}

// onStrangersRefusal: the device refused a request of somebody that it has no address
// handle for.
func (e *Endpoint) onStrangersRefusal(m *device.Refused) {
	if l := e.knownAt(m.GID, m.QPN); l != nil {
		e.cfg.Shard.Tell(l.Peer, m)
		return
	}
	e.env.Counters.Refused++
	e.event(Event{Kind: AccessRefused, Handle: peer.Unlisted, Err: errDevice})
}

package endpoint

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/runtime/shard"
)

// routes finds the peer of a received packet by where it came from (libfabric's
// reverse address vector, §4.4). It is a table of the shard: the device queue
// reads it, the endpoint writes it.
type routes struct {
	byAH   []map[uint16]*route
	gids   []device.GID // by AH
	recent [cached]recent
}

// recent is where a packet came from lately, so that most packets need no map.
type recent struct {
	key  uint32 // AH and QPN
	link *peer.Link
}

const cached = 64

func cacheKey(ah device.AH, qpn uint16) uint32 { return uint32(ah)<<16 | uint32(qpn) }

// route is who is, and who was, at one (AH, QPN).
type route struct {
	cur    *peer.Link
	former []uint32 // connids of endpoints that were there before
}

// maxFormer bounds what is remembered of one queue pair number's past.
const maxFormer = 16

// find returns the peer at (ah, qpn), or nil.
func (r *routes) find(ah device.AH, qpn uint16) *peer.Link {
	key := cacheKey(ah, qpn)
	c := &r.recent[(key^key>>16)%cached]
	if c.key == key && c.link != nil {
		return c.link
	}
	if int(ah) < len(r.byAH) {
		if x := r.byAH[ah][qpn]; x != nil && x.cur != nil {
			*c = recent{key, x.cur}
			return x.cur
		}
	}
	return nil
}

// Route implements device.Router.
func (e *Endpoint) Route(ah device.AH, qpn uint16) shard.Ref {
	if l := e.routes.find(ah, qpn); l != nil {
		return l.Peer
	}
	return e.ref
}

func (r *routes) get(ah device.AH, qpn uint16) *route {
	if int(ah) < len(r.byAH) {
		return r.byAH[ah][qpn]
	}
	return nil
}

// from is the GID that a packet came from; zero if the device does not know it.
func (r *routes) from(p *device.RecvPkt) device.GID {
	if int(p.AH) < len(r.gids) {
		return r.gids[p.AH]
	}
	return p.GID
}

// set makes l the current peer at its place, and returns the one that it
// replaces.
func (r *routes) set(l *peer.Link) (former *peer.Link) {
	clear(r.recent[:])
	for int(l.AH) >= len(r.byAH) {
		r.byAH, r.gids = append(r.byAH, nil), append(r.gids, device.GID{})
	}
	r.gids[l.AH] = l.Addr.GID()
	m := r.byAH[l.AH]
	if m == nil {
		m = make(map[uint16]*route)
		r.byAH[l.AH] = m
	}
	x := m[l.QPN]
	if x == nil {
		m[l.QPN] = &route{cur: l}
		return nil
	}
	former, x.cur = x.cur, l
	if former != nil {
		x.remember(former)
	}
	return former
}

// drop leaves nobody at l's place, if l is there.
func (r *routes) drop(l *peer.Link) bool {
	x := r.get(l.AH, l.QPN)
	if x == nil || x.cur != l {
		return false
	}
	clear(r.recent[:])
	x.cur = nil
	x.remember(l)
	return true
}

func (x *route) remember(l *peer.Link) {
	if len(x.former) == maxFormer {
		x.former = x.former[1:]
	}
	x.former = append(x.former, l.QKey)
}

// was tells whether connid belonged to a former endpoint there.
func (x *route) was(connid uint32) bool {
	for _, c := range x.former {
		if c == connid {
			return true
		}
	}
	return false
}

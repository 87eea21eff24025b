package endpoint

import (
	"iter"
	"slices"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
)

// routes finds the peer of a received packet by the queue pair that sent it (libfabric's
// reverse address vector, §4.4). The device queue looks packets up in it, peers writes it;
// all on the shard.
type routes struct {
	byAH   []map[uint16]*route
	gids   []device.GID // by AH
	empty  []uint32     // keys of routes without a peer, oldest first; some have one again
	recent [cached]recent
}

// recent is a peer that sent a packet lately. Most packets are routed without the maps.
type recent struct {
	key  uint32 // AH and QPN
	link *peer.Link
}

const cached = 64

func cacheKey(ah device.AH, qpn uint16) uint32 { return uint32(ah)<<16 | uint32(qpn) }

// route is one (AH, QPN): the peer there, and the connids of earlier ones.
type route struct {
	cur    *peer.Link // nil if it was dropped
	former []uint32   // oldest first
	pace   pace       // of those that come
}

// maxEmpty is the number of routes without a peer that are remembered.
const maxEmpty = 1024

// maxFormer is the number of former connids that a route remembers.
const maxFormer = 16

// lately returns the peer at (ah, qpn) if the cache has it.
func (r *routes) lately(ah device.AH, qpn uint16) *peer.Link {
	key := cacheKey(ah, qpn)
	if c := &r.recent[(key^key>>16)%cached]; c.key == key {
		return c.link
	}
	return nil
}

// find returns the peer at (ah, qpn), or nil, and enters it into the cache.
func (r *routes) find(ah device.AH, qpn uint16) *peer.Link {
	x := r.get(ah, qpn)
	if x == nil || x.cur == nil {
		return nil
	}
	key := cacheKey(ah, qpn)
	r.recent[(key^key>>16)%cached] = recent{key, x.cur}
	return x.cur
}

// get returns the route of (ah, qpn), or nil.
func (r *routes) get(ah device.AH, qpn uint16) *route {
	if int(ah) < len(r.byAH) {
		return r.byAH[ah][qpn]
	}
	return nil
}

// all yields the peers that are at some place now, in no order.
func (r *routes) all() iter.Seq[*peer.Link] {
	return func(yield func(*peer.Link) bool) {
		for _, byQPN := range r.byAH {
			for _, x := range byQPN {
				if x.cur != nil && !yield(x.cur) {
					return
				}
			}
		}
	}
}

// from returns the GID of a packet's sender, zero if the device does not know it.
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
	if gid := l.Addr.GID(); r.gids[l.AH] != gid { // the device has used the handle's number again
		r.gids[l.AH], r.byAH[l.AH] = gid, nil
	}
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

// drop takes l out of its place; false if another peer is there.
func (r *routes) drop(l *peer.Link) bool {
	x := r.get(l.AH, l.QPN)
	if x == nil || x.cur != l {
		return false
	}
	clear(r.recent[:])
	x.cur = nil
	x.remember(l)
	r.emptied(l)
	return true
}

// rest takes l out of its place until it is heard again: it is no former one.
func (r *routes) rest(l *peer.Link) {
	x := r.get(l.AH, l.QPN)
	if x == nil || x.cur != l {
		return
	}
	clear(r.recent[:])
	x.cur = nil
	r.emptied(l)
}

// emptied notes that the route of l has no peer.
func (r *routes) emptied(l *peer.Link) {
	if r.empty = append(r.empty, cacheKey(l.AH, l.QPN)); len(r.empty) > maxEmpty {
		r.forget(r.empty[0])
		r.empty = r.empty[1:]
	}
}

// forget deletes a route that has no peer.
func (r *routes) forget(key uint32) {
	m := r.byAH[key>>16]
	if x := m[uint16(key)]; x != nil && x.cur == nil {
		delete(m, uint16(key))
	}
}

func (x *route) remember(l *peer.Link) { x.note(l.QKey) }

// note remembers the connid of a former one.
func (x *route) note(connid uint32) {
	if len(x.former) == maxFormer {
		x.former = x.former[1:]
	}
	x.former = append(x.former, connid)
}

// was reports whether connid belonged to a former endpoint there.
func (x *route) was(connid uint32) bool {
	return slices.Contains(x.former, connid)
}

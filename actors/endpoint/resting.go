package endpoint

import (
	"slices"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// resting remembers strangers that were let go while they were idle, by their place, so that
// they go on where they were. They keep their address handles as long as the device has enough:
// a packet that has come names one that must not be another host's by the time it is handled.
type resting struct {
	most    int
	byPlace map[place]rested
	order   []turn // in which they were let go; some are back
	last    uint64 // turn
}

// turn is when the one at a place was let go.
type turn struct {
	place
	at uint64
}

// rested is one of them.
type rested struct {
	peer.Rest
	ah    device.AH
	hasAH bool
	turn  uint64
}

// place is a queue pair.
type place struct {
	gid device.GID
	qpn uint16
}

func placeOf(addr wire.RawAddr) place { return place{addr.GID(), addr.QPN()} }

// full reports whether there is no room for one more.
func (s *resting) full() bool { return len(s.byPlace) >= s.most }

func (s *resting) add(at place, r rested) {
	if s.byPlace == nil {
		s.byPlace = make(map[place]rested)
	}
	s.last++
	r.turn = s.last
	s.byPlace[at] = r
	if s.order = append(s.order, turn{at, r.turn}); len(s.order) > 2*len(s.byPlace)+64 {
		s.order = slices.DeleteFunc(s.order, func(t turn) bool { return !s.holds(t) })
	}
}

// holds reports whether the one at a place is the one that was let go then.
func (s *resting) holds(t turn) bool {
	r, ok := s.byPlace[t.place]
	return ok && r.turn == t.at
}

// take returns what is remembered of who was at a place, and forgets it.
func (s *resting) take(at place, qp device.QP) (rested, bool) {
	r, ok := s.byPlace[at]
	if ok {
		delete(s.byPlace, at)
		r.giveAH(qp)
	}
	return r, ok
}

// giveAH gives the address handle back.
func (r *rested) giveAH(qp device.QP) {
	if r.hasAH {
		r.hasAH = false
		_ = qp.DestroyAH(r.ah) // it was created by us, so this does not fail
	}
}

// giveAHs gives all address handles back, since the device has no more.
func (s *resting) giveAHs(qp device.QP) {
	for _, t := range s.order {
		if r := s.byPlace[t.place]; s.holds(t) && r.hasAH {
			r.giveAH(qp)
			s.byPlace[t.place] = r
		}
	}
}

// is reports whether addr is of one that was let go, and whether that is dead.
func (s *resting) is(addr wire.RawAddr) (known, gone bool) {
	r, ok := s.byPlace[placeOf(addr)]
	known = ok && r.QKey == addr.ConnID()
	return known, known && r.Gone
}

// oldest returns the address of the one that was let go longest ago; false: there is none.
func (s *resting) oldest(qp device.QP) (wire.RawAddr, bool) {
	for len(s.order) > 0 {
		t := s.order[0]
		s.order = s.order[1:]
		if !s.holds(t) {
			continue
		}
		at := t.place
		if r := s.byPlace[at]; r.Gone {
			r.giveAH(qp)
			delete(s.byPlace, at)
		} else {
			return wire.MakeRawAddr(at.gid, at.qpn, r.QKey), true
		}
	}
	return wire.RawAddr{}, false
}

// later puts what oldest returned behind all others.
func (s *resting) later(at place) { s.order = append(s.order, turn{at, s.byPlace[at].turn}) }

// sender returns the address of a packet's sender if that was let go and the packet does not
// say that it is of another one. Not all packets of libfabric say who sends them.
func (s *resting) sender(r *device.RecvPkt, from device.GID) (wire.RawAddr, bool) {
	x, ok := s.byPlace[place{from, r.QPN}]
	if !ok || r.Err != nil {
		return wire.RawAddr{}, false
	}
	if id, said := r.View.ConnID(); said && id != x.QKey {
		return wire.RawAddr{}, false
	}
	return wire.MakeRawAddr(from, r.QPN, x.QKey), true
}

// gone notes that the process of one is dead.
func (s *resting) gone(g *device.Gone, gid device.GID) {
	at := place{gid, g.QPN}
	if r, ok := s.byPlace[at]; ok && (g.QKey == 0 || g.QKey == r.QKey) {
		r.Gone = true
		s.byPlace[at] = r
	}
}

// restMost is how many strangers that were let go are remembered for each that may be here.
const restMost = 16

// sample is how many strangers are looked at for one to let go, if one of them is idle.
const sample = 32

// letGo lets the stranger go that was not heard for longest among some that are idle: nothing
// is in progress with it, and nothing of its is here. False: nobody is.
func (p *peers) letGo() bool {
	if p.resting.full() {
		p.recall()
		return false
	}
	var best *peer.Link
	for n := range p.lobby.size() {
		if n >= sample && best != nil {
			break
		}
		if l := p.lobby.next(); l.Idle() && (best == nil || l.LastHeard() < best.LastHeard()) {
			best = l
		}
	}
	return best != nil && p.rest(best)
}

// rest lets a stranger go if it is idle.
func (p *peers) rest(l *peer.Link) bool {
	if p.resting.full() {
		return false
	}
	r, ok := l.LetGo()
	if !ok {
		return false
	}
	p.leave(l)
	l.ForgetHostID()
	p.routes.rest(l)
	p.resting.add(placeOf(l.Addr), rested{Rest: r, ah: l.AH, hasAH: true})
	p.env.Sh.Stop(l.Peer)
	l.Rails.Drop(p.qp())
	p.env.Counters.StrangersRested++
	return true
}

// handleFor takes an address handle for a stranger. The device may have too few of them.
func (p *peers) handleFor(gid device.GID) (device.AH, error) {
	ah, err := p.qp().CreateAH(gid)
	if err != nil && len(p.resting.byPlace) > 0 {
		p.resting.giveAHs(p.qp())
		return p.qp().CreateAH(gid)
	}
	return ah, err
}

// recall makes a peer again of the one that was let go longest ago and probes it, to find out
// whether it has left.
func (p *peers) recall() {
	addr, ok := p.resting.oldest(p.qp())
	if !ok {
		return
	}
	ah, err := p.qp().CreateAH(addr.GID())
	if err != nil {
		p.resting.later(placeOf(addr))
		return
	}
	l := p.create(addr, ah, peer.Unlisted, p.book.Now())
	p.lobby.enter(l)
	l.Probe()
}

// onGone: a process is dead, or has closed its queue pair, of which there was no peer when the
// device said so. There may be one by now, made of a packet that the device reported with it.
func (p *peers) onGone(g *device.Gone) {
	if l := p.at(g.GID, g.QPN); l != nil {
		p.env.Sh.Tell(l.Peer, g)
		return
	}
	gid := g.GID
	if int(g.AH) < len(p.routes.gids) {
		gid = p.routes.gids[g.AH]
	}
	p.resting.gone(g, gid)
}

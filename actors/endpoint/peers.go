package endpoint

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// peers is the endpoint's directory of peers: it owns the peer of each handle of the
// address vector, the routes from where a packet came to the peer there, the peers that
// are in no address vector ("strangers", lobby.go), and the peers that others replaced
// and that still have operations in progress. It makes peer actors and stops them.
//
// Requests ask it for the peer of a handle, the device queue for the actor of a packet;
// Endpoint.Receive passes it the packets that no peer takes (strangers.go), and
// Endpoint.Insert and Endpoint.Remove the changes of the address vector.
type peers struct {
	env     *peer.Env
	pools   *ope.Pools
	table   *match.Table // from the endpoint's start
	closing *closing
	book    AddressBook
	spawn   func(actor.Producer) shard.Ref
	event   func(Event)
	many    *many
	most    int // strangers that are let in

	byHandle []*peer.Link
	routes   routes
	lobby    lobby
	crowd    crowd
	resting  resting
	trials   trials
	replaced []*peer.Link
}

// link returns the peer of a handle, which it makes at the handle's first use.
func (p *peers) link(handle uint64) (*peer.Link, error) {
	if l := p.made(handle); l != nil {
		return l, nil
	}
	addr, err := p.book.Address(handle)
	if err != nil {
		return nil, err
	}
	ah, err := p.qp().CreateAH(addr.GID())
	if err != nil {
		return nil, fmt.Errorf("%w: address handle for %s: %w", errno.ErrHostUnreach, p.uri(&addr), err)
	}
	if x := p.routes.get(ah, addr.QPN()); x != nil && x.cur != nil && x.cur.QKey == addr.ConnID() {
		_ = p.qp().DestroyAH(ah) // the peer holds it already
		p.bind(x.cur, handle)
		return x.cur, nil
	} else if x != nil && x.cur != nil && x.cur.Age > p.book.Age(handle) {
		_ = p.qp().DestroyAH(ah)
		return nil, fmt.Errorf("%w: handle %d is of a former one", peer.ErrReplaced, handle)
	} else if x != nil && x.was(addr.ConnID()) {
		_ = p.qp().DestroyAH(ah)
		return nil, fmt.Errorf("%w, and has not come back with a new connid", peer.ErrPeerFailed)
	}
	l := p.create(addr, ah, handle, p.book.Age(handle))
	p.setHandle(handle, l)
	return l, nil
}

// made returns the peer of a handle if there is one by now, else nil.
func (p *peers) made(handle uint64) *peer.Link {
	if handle >= uint64(len(p.byHandle)) {
		return nil
	}
	return p.byHandle[handle]
}

func (p *peers) setHandle(handle uint64, l *peer.Link) {
	for uint64(len(p.byHandle)) <= handle {
		p.byHandle = append(p.byHandle, nil)
	}
	p.byHandle[handle] = l
}

// create makes the peer at addr. A peer that was there is replaced; age orders the two.
func (p *peers) create(addr wire.RawAddr, ah device.AH, handle, age uint64) *peer.Link {
	p.reap()
	p.lookAfter()
	l := p.make(addr, ah, handle, age)
	p.settle(l)
	return l
}

// make makes a peer that has no place yet.
func (p *peers) make(addr wire.RawAddr, ah device.AH, handle, age uint64) *peer.Link {
	l := &peer.Link{
		Handle: handle, Age: age, Addr: addr, AH: ah, Path: uint8(p.qp().PathOf(ah)), QPN: addr.QPN(), QKey: addr.ConnID(),
	}
	p.env.Spawn(l, p.spawn)
	return l
}

// settle gives a peer its place.
func (p *peers) settle(l *peer.Link) {
	rest, rested := p.resting.take(placeOf(l.Addr), p.qp())
	if rested = rested && rest.QKey == l.QKey; rested {
		l.Restore(&rest.Rest)
	}
	if former := p.routes.set(l); former != nil {
		p.env.Trail.Put(l.Span, trail.Replaces, 0, former.Span, 0)
		p.leave(former)
		p.replaced = append(p.replaced, former)
		p.env.Sh.Tell(former.Peer, &peer.Remove{Err: peer.ErrReplaced, Tell: true})
	}
}

// forget drops a peer that has failed and that no handle names, so that only its connid
// is kept.
func (p *peers) forget(l *peer.Link) {
	if l.Err == nil || l.Handle != peer.Unlisted {
		return
	}
	if l.Away {
		return
	}
	if p.routes.drop(l) {
		p.leave(l)
		p.replaced = append(p.replaced, l)
	}
}

// reap stops replaced peers that have no operation in progress any more.
func (p *peers) reap() {
	keep := p.replaced[:0]
	for _, l := range p.replaced {
		if l.Busy() || p.env.Q.Holds(l.Peer) {
			keep = append(keep, l)
			continue
		}
		if p.made(l.Handle) == l {
			p.byHandle[l.Handle] = nil
		}
		p.env.Sh.Stop(l.Peer)
		l.ForgetHostID()
		_ = p.qp().DestroyAH(l.AH) // it was created by us, so this does not fail
		l.Rails.Drop(p.qp())
	}
	clear(p.replaced[len(keep):])
	p.replaced = keep
}

// find returns the peer that is at addr now, or nil.
func (p *peers) find(addr wire.RawAddr) *peer.Link {
	if l := p.at(addr.GID(), addr.QPN()); l != nil && l.Addr == addr {
		return l
	}
	return nil
}

// at returns the peer that is at a queue pair now, nil if there is none or gid is zero. It
// is the slow way: for what comes without an address handle, since the device has lost its
// own. Releases of libfabric until 1.13 do not say in all their packets who sends them.
func (p *peers) at(gid device.GID, qpn uint16) *peer.Link {
	if gid == (device.GID{}) {
		return nil
	}
	for _, m := range p.routes.byAH {
		if x := m[qpn]; x != nil && x.cur != nil && x.cur.Addr.GID() == gid {
			return x.cur
		}
	}
	return nil
}

// uri is an address for which there is no address handle: of several devices none is known to
// lead there, which libfabric's form leaves open.
func (p *peers) uri(a *wire.RawAddr) string {
	if len(p.env.Paths) == 1 {
		return p.env.URI(a, 0)
	}
	return a.String()
}

// of returns the peer whose actor pid is, nil if it is no peer's.
func (p *peers) of(pid *actor.PID) *peer.Link {
	for l := range p.routes.all() {
		if pid.Equal(l.Peer.PID()) {
			return l
		}
	}
	for _, l := range p.replaced {
		if pid.Equal(l.Peer.PID()) {
			return l
		}
	}
	return nil
}

// greet has all peers that have not failed answer.
func (p *peers) greet() {
	var alive []*peer.Link
	for l := range p.routes.all() {
		if l.Err == nil {
			alive = append(alive, l)
		}
	}
	slices.SortFunc(alive, func(a, b *peer.Link) int {
		return cmp.Or(cmp.Compare(a.AH, b.AH), cmp.Compare(a.QPN, b.QPN))
	})
	for _, l := range alive {
		l.Probe()
	}
}

// endTrail records the end of the peers that have not failed.
func (p *peers) endTrail(t *trail.Log) {
	var alive []uint64
	for l := range p.routes.all() {
		if l.Err == nil {
			alive = append(alive, l.Span)
		}
	}
	slices.Sort(alive)
	for _, span := range alive {
		t.Outcome(span, trail.PeerEnd, 0, nil)
	}
}

// leave takes a peer out of those that are in no address vector.
func (p *peers) leave(l *peer.Link) {
	p.lobby.leave(l)
	p.crowd.leave(l)
}

func (p *peers) qp() device.QP { return p.env.Q.QP() }

package endpoint

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// linkFor returns the peer of a handle; it comes into being at its first use.
func (e *Endpoint) linkFor(handle uint64) (*peer.Link, error) {
	if handle < uint64(len(e.links)) {
		if l := e.links[handle]; l != nil {
			return l, nil
		}
	}
	addr, err := e.cfg.Book.Address(handle)
	if err != nil {
		return nil, err
	}
	ah, err := e.queue.QP().CreateAH(addr.GID())
	if err != nil {
		return nil, fmt.Errorf("%w: address handle for %s: %w", errno.ErrHostUnreach, addr, err)
	}
	if x := e.routes.get(ah, addr.QPN()); x != nil && x.cur != nil && x.cur.QKey == addr.ConnID() {
		_ = e.queue.QP().DestroyAH(ah) // the peer holds it already
		e.bind(x.cur, handle)
		return x.cur, nil
	} else if x != nil && x.cur != nil && x.cur.Age > e.cfg.Book.Age(handle) {
		_ = e.queue.QP().DestroyAH(ah)
		return nil, fmt.Errorf("%w: handle %d is of a former one", peer.ErrReplaced, handle)
	} else if x != nil && x.was(addr.ConnID()) {
		_ = e.queue.QP().DestroyAH(ah)
		return nil, fmt.Errorf("%w, and has not come back with a new connid", peer.ErrPeerFailed)
	}
	l := e.newPeer(addr, ah, handle, e.cfg.Book.Age(handle))
	e.setHandle(handle, l)
	return l, nil
}

func (e *Endpoint) setHandle(handle uint64, l *peer.Link) {
	for uint64(len(e.links)) <= handle {
		e.links = append(e.links, nil)
	}
	e.links[handle] = l
}

// newPeer makes the peer at addr; age says which of two at one place is newer.
func (e *Endpoint) newPeer(addr wire.RawAddr, ah device.AH, handle, age uint64) *peer.Link {
	e.reap()
	l := &peer.Link{Handle: handle, Age: age, Addr: addr, AH: ah, Path: e.pathOf(ah), QPN: addr.QPN(), QKey: addr.ConnID()}
	p := peer.New(e.env, l)
	l.Peer = e.spawnChild("", func() actor.Actor { return p })
	if former := e.routes.set(l); former != nil {
		e.env.Trail.Put(l.Span, trail.Replaces, 0, former.Span, 0)
		if former.Handle == peer.Unlisted {
			e.strangers--
		}
		e.replaced = append(e.replaced, former)
		e.cfg.Shard.Tell(former.Peer, &peer.Remove{Err: peer.ErrReplaced, Tell: true})
	}
	return l
}

// forget lets go of a peer that has failed and that no handle names, so that those
// who come and go leave nothing behind but their connids.
func (e *Endpoint) forget(l *peer.Link) {
	if l.Err == nil || l.Handle != peer.Unlisted {
		return
	}
	if e.routes.drop(l) {
		e.strangers--
		e.replaced = append(e.replaced, l)
	}
}

// reap stops peers that others replaced, once nothing of theirs is in progress.
func (e *Endpoint) reap() {
	keep := e.replaced[:0]
	for _, l := range e.replaced {
		if l.Busy() || e.queue.Holds(l.Peer) {
			keep = append(keep, l)
			continue
		}
		if l.Handle < uint64(len(e.links)) && e.links[l.Handle] == l {
			e.links[l.Handle] = nil
		}
		e.cfg.Shard.Stop(l.Peer)
		_ = e.queue.QP().DestroyAH(l.AH) // counted; it can only be ours
	}
	clear(e.replaced[len(keep):])
	e.replaced = keep
}

// bind gives an unlisted peer its handle: its messages that wait can now match
// receives that name it.
func (e *Endpoint) bind(l *peer.Link, handle uint64) {
	if l.Handle == peer.Unlisted {
		e.strangers--
	}
	l.Handle, l.Age = handle, max(l.Age, e.cfg.Book.Age(handle))
	e.setHandle(handle, l)
	for _, m := range e.unexpectedOf(l) {
		e.table.Rekey(m, match.Source(handle))
		// A directed receive may have waited for it all the time.
		if r := e.table.Arrive(m.Kind, m.Tag, match.Source(handle)); r != nil {
			e.table.RemoveMsg(m)
			rxe, p := e.pools.Rxe(m.Owner), e.pools.Orders.At(r.Owner)
			e.cfg.Shard.Tell(rxe.Ref(), rxe.Match(p))
		}
	}
}

// unexpectedOf lists l's messages that wait for a receive, oldest first.
func (e *Endpoint) unexpectedOf(l *peer.Link) []*match.Msg {
	var theirs []*match.Msg
	e.table.EachMsg(func(m *match.Msg) bool {
		if e.pools.Rxe(m.Owner).Link() == l {
			theirs = append(theirs, m)
		}
		return true
	})
	return theirs
}

// Insert tells the endpoint of new handles in the address vector, so that peers
// that came before their address are known from now on. Runs on the shard.
func (e *Endpoint) Insert(first, n uint64) {
	if e.strangers == 0 || e.state == stopped {
		return
	}
	for h := first; h < first+n; h++ {
		addr, err := e.cfg.Book.Address(h)
		if err != nil {
			continue
		}
		if l := e.findPeer(addr); l != nil && l.Handle == peer.Unlisted {
			e.bind(l, h)
		}
	}
}

func (e *Endpoint) findPeer(addr wire.RawAddr) *peer.Link {
	if l := e.knownAt(addr.GID(), addr.QPN()); l != nil && l.Addr == addr {
		return l
	}
	return nil
}

// Remove takes a handle away: operations in progress with the peer end with
// ErrRemoved, their messages go on from copies so that no msg_id gets lost. The
// peer itself stays as one that is in no address vector, and resumes when its
// address is inserted again. Runs on the shard.
func (e *Endpoint) Remove(handle uint64) {
	if e.state == stopped {
		return
	}
	e.failReceives(func(p *ope.Order) bool { return p.Req.Peer != handle }, peer.ErrRemoved)
	if handle >= uint64(len(e.links)) || e.links[handle] == nil {
		return
	}
	l := e.links[handle]
	e.links[handle] = nil
	l.Handle = peer.Unlisted
	if x := e.routes.get(l.AH, l.QPN); x != nil && x.cur == l {
		e.strangers++
		e.forget(l)
	}
	for _, m := range e.unexpectedOf(l) {
		e.table.Rekey(m, match.NotAvail) // the handle may soon be another's
	}
	cancel := &ope.Cancel{Err: peer.ErrRemoved}
	e.pools.EachTx(func(t *ope.Txe) {
		if t.Link() == l {
			c := *cancel
			c.ID = t.Request().ID
			e.cfg.Shard.Tell(t.Ref(), &c)
		}
	})
	e.pools.EachRx(func(r *ope.Rxe) {
		if r.Link() == l && r.RequestID() != 0 { // an unexpected message stays
			c := *cancel
			c.ID = r.RequestID()
			e.cfg.Shard.Tell(r.Ref(), &c)
		}
	})
}

// onStranger: a packet from a queue pair that no peer is known for. It must say
// who it is: by the raw address in a REQ, or by its connid and the GID that the
// device reports (§2.2).
func (e *Endpoint) onStranger(r *device.RecvPkt) {
	addr, ok := e.identify(r)
	if !ok {
		e.onNameless(r)
		return
	}
	if x := e.routes.get(r.AH, r.QPN); x != nil && x.was(addr.ConnID()) {
		e.env.Counters.StaleConnID++
		r.Release()
		return
	}
	e.admit(r, addr)
}

func (e *Endpoint) identify(r *device.RecvPkt) (wire.RawAddr, bool) {
	id, ok := wire.ConnIDOf(r.Data)
	if !ok {
		return wire.RawAddr{}, false
	}
	if raw, ok := wire.RawAddrOf(r.Data); ok {
		gid := raw.GID()
		if from := e.routes.from(r); from != (device.GID{}) && from != gid {
			return wire.RawAddr{}, false // it lies about where it is
		}
		return wire.MakeRawAddr(gid, r.QPN, id), true
	}
	if r.AH == device.UnknownAH && r.GID != (device.GID{}) {
		return wire.MakeRawAddr(r.GID, r.QPN, id), true
	}
	return wire.RawAddr{}, false
}

// admit makes a peer of a stranger and gives it the packet.
func (e *Endpoint) admit(r *device.RecvPkt, addr wire.RawAddr) {
	if e.state != open {
		r.Release()
		return
	}
	if l := e.findPeer(addr); l != nil {
		// Known, but the device had lost its address handle.
		e.cfg.Shard.Tell(l.Peer, r.Arrived())
		return
	}
	handle, listed := e.cfg.Book.Handle(addr)
	if !listed {
		handle = peer.Unlisted
		e.reap()
		if e.strangers+len(e.replaced) >= e.cfg.MaxStrangers {
			e.env.Counters.NoAddress++
			r.Release()
			return
		}
	}
	ah, err := e.queue.QP().CreateAH(addr.GID())
	if err != nil {
		e.cfg.Log.Warn("address handle for a stranger", "addr", addr, "err", err)
		r.Release()
		return
	}
	l := e.newPeer(addr, ah, handle, e.cfg.Book.Now())
	if listed {
		e.setHandle(handle, l)
	} else {
		e.strangers++
		e.event(Event{Kind: NewPeer, Handle: handle, Addr: addr, Path: l.Path})
	}
	e.cfg.Shard.Tell(l.Peer, r.Arrived())
}

// onOtherConnID: a packet from a known queue pair with another connid: of a
// former endpoint there, to be dropped, or of a new one, which takes the place
// of the old (§4.4). Only a packet with a raw address, or an address that
// the application inserted, can introduce a new one.
func (e *Endpoint) onOtherConnID(m *peer.Stranger) {
	r, c := m.Pkt, &e.env.Counters
	id, ok := wire.ConnIDOf(r.Data)
	x := e.routes.get(m.Link.AH, m.Link.QPN)
	if !ok || x == nil || x.cur == nil || x.was(id) {
		c.StaleConnID++
		r.Release()
		return
	}
	if x.cur.QKey == id {
		e.cfg.Shard.Tell(x.cur.Peer, r.Arrived()) // the new one came in meanwhile
		return
	}
	addr := wire.MakeRawAddr(m.Link.Addr.GID(), m.Link.QPN, id)
	raw, introduced := wire.RawAddrOf(r.Data)
	if introduced && raw.GID() != m.Link.Addr.GID() {
		introduced = false
	}
	if _, listed := e.cfg.Book.Handle(addr); !listed && !introduced {
		c.StaleConnID++
		r.Release()
		return
	}
	e.admit(r, addr)
}

// onDown: a peer failed by itself. Receives that only it could satisfy fail too.
func (e *Endpoint) onDown(l *peer.Link, err error) {
	if l.Handle != peer.Unlisted {
		h := l.Handle
		e.failReceives(func(p *ope.Order) bool { return p.Req.Peer != h }, err)
	}
	e.event(Event{Kind: PeerFailed, Handle: l.Handle, Addr: l.Addr, Path: l.Path, Err: err})
	e.forget(l)
}

package endpoint

import (
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
)

// Insert tells the endpoint of the n new handles from first in the address vector. Peers
// that were known before their addresses have handles from now on. Runs on the shard.
func (e *Endpoint) Insert(first, n uint64) {
	switch {
	case e.closing.state == stopped:
	case e.port != nil:
		e.port.Insert(first, n)
	default:
		e.peers.insert(first, n)
		e.claims.awaited.offer(&e.claims)
	}
}

// hearOf gives a stranger its handle if it was inserted and the endpoint has not been told yet.
func (e *Endpoint) hearOf(l *peer.Link) {
	if l.Handle == peer.Unlisted {
		e.cfg.News()
	}
}

// Remove takes a handle away: operations in progress with the peer end with ErrRemoved,
// their messages go on from copies so that no msg_id gets lost. The peer stays, in no
// address vector, and resumes when its address is inserted again. Runs on the shard.
func (e *Endpoint) Remove(handle uint64) {
	if e.closing.state == stopped {
		return
	}
	if e.port != nil {
		e.port.Remove(handle)
		return
	}
	e.failReceives(func(p *ope.Order) bool { return p.Req.Peer != handle }, peer.ErrRemoved)
	l := e.peers.remove(handle)
	if l == nil {
		return
	}
	sh := e.cfg.Shard
	e.pools.EachTx(func(t *ope.Txe) {
		if t.Link() == l {
			sh.Tell(t.Ref(), &ope.Cancel{ID: t.Request().ID, Err: peer.ErrRemoved})
		}
	})
	e.pools.EachRx(func(r *ope.Rxe) {
		if r.Link() == l && r.RequestID() != 0 { // an unexpected message stays
			sh.Tell(r.Ref(), &ope.Cancel{ID: r.RequestID(), Err: peer.ErrRemoved})
		}
	})
}

// bind gives a stranger its handle: its unexpected messages can now match receives that
// name it.
func (p *peers) bind(l *peer.Link, handle uint64) {
	p.leave(l)
	l.Handle, l.Age = handle, max(l.Age, p.book.Age(handle))
	p.setHandle(handle, l)
	for _, m := range p.unexpected(l) {
		p.table.Rekey(m, match.Source(handle))
		// A receive that names the handle may have waited for this message.
		if r := p.table.Arrive(m.Kind, m.Tag, match.Source(handle)); r != nil {
			p.many.give(p.pools.Rxe(m.Owner), p.pools.Orders.At(r.Owner), m)
		}
	}
}

// insert binds peers that were known before their addresses got the n handles from first.
func (p *peers) insert(first, n uint64) {
	if p.lobby.size()+len(p.crowd.where) == 0 {
		return
	}
	for h := first; h < first+n; h++ {
		addr, err := p.book.Address(h)
		if err != nil {
			continue
		}
		if l := p.find(addr); l != nil && l.Handle == peer.Unlisted {
			p.bind(l, h)
		}
	}
}

// remove makes the peer of a handle a stranger, and returns it; nil if there was none.
func (p *peers) remove(handle uint64) *peer.Link {
	l := p.made(handle)
	if l == nil {
		return nil
	}
	p.byHandle[handle] = nil
	l.Handle = peer.Unlisted
	if x := p.routes.get(l.AH, l.QPN); x != nil && x.cur == l {
		p.lobby.enter(l)
		if p.forget(l); l.Away {
			p.env.Sh.Tell(l.Peer, &peer.Remove{Err: peer.ErrRemoved, Away: true})
		}
	}
	for _, m := range p.unexpected(l) {
		p.table.Rekey(m, match.NotAvail) // the handle may soon be another peer's
	}
	return l
}

// unexpected lists l's messages that wait for a receive, oldest first.
func (p *peers) unexpected(l *peer.Link) []*match.Msg {
	var theirs []*match.Msg
	p.table.EachMsg(func(m *match.Msg) bool {
		if p.pools.Rxe(m.Owner).Link() == l {
			theirs = append(theirs, m)
		}
		return true
	})
	return theirs
}

// outdated reports whether the handle of a request that is Aged is not that peer's any more
// which the caller meant.
func (e *Endpoint) outdated(r *ope.Request) bool { return e.cfg.Book.Age(r.Peer) != r.Age() }

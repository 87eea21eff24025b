package endpoint

import (
	"slices"

	"github.com/efactor/efactor/actors/atomics"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
)

// Accept implements peer.Acceptor: a request whose turn it is. The first packet of a message makes an rxe
// and is matched; further ones go to the rxe that the first one made. Callers have nothing to do
// after it.
func (e *Endpoint) Accept(pkt *peer.Packet) {
	l := pkt.Link
	e.learnHandle(l)
	if !pkt.Type.IsRTM() {
		e.access.onRequest(pkt)
		return
	}
	if (pkt.Multi != nil || l.Err != nil || e.special) && e.handleSpecial(pkt) {
		return
	}
	rxe := e.pools.Begin(pkt)
	if rxe == nil {
		e.starved.add(pkt)
		return
	}
	if r := e.table.Arrive(match.KindOf(pkt.Tagged), pkt.Tag, match.Source(l.Handle)); r != nil {
		o := e.pools.Entries.At(r.Owner)
		if o.Req.Flags&multiFlags == 0 {
			rxe.MatchLast(o)
			return
		}
		if e.multi.match(rxe, o, nil) {
			return
		}
	}
	if e.srx != nil && e.srx.arrive(rxe, match.KindOf(pkt.Tagged), pkt.Tag) {
		return
	}
	if e.cfg.Wanted != nil && e.discard(rxe, pkt) {
		return
	}
	e.env.Counters.Unexpected++
	e.table.AddMsg(rxe.List())
	rxe.Unexpected()
	if len(e.claims.waits.list) > 0 {
		e.claims.waits.offer(&e.claims)
	}
}

// discard throws a message of one packet away if the application does not want it.
func (e *Endpoint) discard(rxe *ope.Rxe, pkt *peer.Packet) bool {
	if !pkt.Whole() || e.cfg.Wanted(pkt.Link.Handle, pkt.Tagged, pkt.Tag) {
		return false
	}
	e.env.Counters.Unwanted++
	r := ope.Request{ID: noID, Kind: ope.KindTake, Flags: ope.Discard, Sink: nobody{}}
	rxe.MatchLast(e.pools.Entries.Get(&r, e.env.Sh.Now()))
	return true
}

// noID is the id of a request that is nobody's.
const noID = ^uint64(0)

// nobody is the Sink of such a request.
type nobody struct{}

func (nobody) Done(*ope.Request, *ope.Result) {}

// handleSpecial looks at a message that is a part, or comes when not every message is taken. It
// reports false if it begins like others.
func (e *Endpoint) handleSpecial(pkt *peer.Packet) bool {
	if pkt.Multi != nil && !pkt.Multi.Rx.IsZero() {
		e.cfg.Shard.Call(pkt.Multi.Rx, pkt.Deliver())
		return true
	}
	away := pkt.Link.MayReturn() && (!pkt.Whole() || anyParked(e.pools, pkt.Link)) // it is a part, or behind one
	if e.closing.state != open || pkt.Link.Err != nil && !away && !pkt.Whole() {
		pkt.Free() // it would begin an operation that never ends
		return true
	}
	if len(e.starved.pkts) > 0 {
		e.starved.add(pkt)
		return true
	}
	if !away {
		return false
	}
	if rxe := e.pools.Begin(pkt); rxe == nil {
		e.starved.add(pkt)
	} else {
		rxe.Unexpected()
		rxe.Park()
	}
	return true
}

// starved is the requests of peers for which no operation is free, since there are MaxOps, in the order in
// which they came. They count as memory of their peers, who are held back; where a device cannot do
// that, reposting slows for all (pressure). When operations are free they go on, before any other request that needs the same.
type starved struct {
	e       *Endpoint
	pkts    []*peer.Packet // messages and writes: they need an rxe; and atomics behind them
	answers []*peer.Packet // what has data answered: it needs a txe, and holds up no message
}

// add has a message or a write wait.
func (s *starved) add(pkt *peer.Packet) {
	s.hold(pkt)
	s.pkts = append(s.pkts, pkt)
	s.e.special = true
}

// hold keeps a packet, and holds its peer back.
func (s *starved) hold(pkt *peer.Packet) {
	s.e.env.Counters.NoRoom++
	s.e.env.Weigh = true
	pkt.Own()
	pkt.Link.HoldBackForOps()
}

// takes reports whether a request for memory has to wait, and keeps it then.
func (s *starved) takes(pkt *peer.Packet) bool {
	p := s.e.pools
	switch {
	case pkt.Type.IsRTW():
		if len(s.pkts) == 0 && p.HasRx() {
			return false
		}
		s.add(pkt)
	case pkt.Type.IsRTR() || atomics.FormOf(pkt.Type) != atomics.Write:
		if len(s.answers) == 0 && p.HasTx() {
			return false
		}
		s.hold(pkt)
		s.answers = append(s.answers, pkt)
	default: // an atomic without an answer needs neither, and does not overtake a write
		if len(s.pkts) == 0 {
			return false
		}
		s.add(pkt)
	}
	return true
}

// empty reports whether nothing waits.
func (s *starved) empty() bool { return len(s.pkts) == 0 && len(s.answers) == 0 }

// retry has the requests go on for which there are operations now. While one goes on it is the first.
func (s *starved) retry() {
	for len(s.answers) > 0 && s.e.pools.HasTx() {
		pkts := s.answers
		s.answers = nil
		s.e.access.onRequest(pkts[0])
		s.answers = append(pkts[1:], s.answers...)
	}
	for len(s.pkts) > 0 && s.e.pools.HasRx() {
		pkts := s.pkts
		s.pkts, s.e.special = nil, s.e.closing.state != open
		first := pkts[0]
		m := first.Multi
		if s.wasTaken(first) {
			s.e.access.carryOut(first)
		} else {
			s.e.Accept(first)
		}
		s.pkts = append(s.begun(m, pkts[1:]), s.pkts...)
	}
	s.e.special = s.e.closing.state != open || len(s.pkts) > 0
}

// wasTaken reports whether a packet is a write or an atomic that was acknowledged before its peer failed, who may come back.
func (s *starved) wasTaken(pkt *peer.Packet) bool {
	return s.e.closing.state == open && !pkt.Type.IsRTM() && pkt.Whole() && pkt.Link.MayReturn()
}

// begun delivers the packets of a message that has begun, which need no operation, and returns the others.
func (s *starved) begun(m *peer.Multi, pkts []*peer.Packet) []*peer.Packet {
	if m == nil || !slices.ContainsFunc(pkts, func(pkt *peer.Packet) bool { return pkt.Multi == m }) || m.Rx.IsZero() {
		return pkts
	}
	var own []*peer.Packet
	pkts = slices.DeleteFunc(pkts, func(pkt *peer.Packet) bool {
		if pkt.Multi == m {
			own = append(own, pkt)
			return true
		}
		return false
	})
	for _, pkt := range own {
		s.e.cfg.Shard.Call(m.Rx, pkt.Deliver())
	}
	return pkts
}

// remove drops the packets of a message that its sender gives up, and reports whether there were some.
func (s *starved) remove(l *peer.Link, id uint32) bool {
	n := len(s.pkts)
	s.pkts = slices.DeleteFunc(s.pkts, func(pkt *peer.Packet) bool {
		gone := pkt.Link == l && pkt.MsgID == id && pkt.Type.IsRTM()
		if gone {
			pkt.Free()
		}
		return gone
	})
	return len(s.pkts) < n
}

// drop drops all, since the endpoint closes.
func (s *starved) drop() {
	for _, pkt := range slices.Concat(s.pkts, s.answers) {
		pkt.Free()
	}
	s.pkts, s.answers = nil, nil
}

func (e *Endpoint) unlist(r *ope.Rxe) { e.table.RemoveMsg(r.Listed()) }

// park takes out of the matcher what comes after a message that is parked itself: its peer
// has failed, and if it comes back they are to be received in their order.
func (e *Endpoint) park(l *peer.Link) {
	behind := false
	for _, r := range waiting(e.pools, l) {
		if behind = behind || r.Parked(); behind {
			r.Park()
		}
	}
}

// unpark puts what was parked into the matcher again: its peer is back, or never comes back
// and these are whole. A receive that was posted since may take one.
func (e *Endpoint) unpark(l *peer.Link) {
	for _, r := range waiting(e.pools, l) {
		if !r.Parked() {
			continue
		}
		kind, tag, from := r.Unpark()
		e.rematch(r, kind, tag, from)
	}
	e.claims.waits.offer(&e.claims)
}

// rematch looks for a receive for a message that waited outside the matcher, and puts it there if there is none.
func (e *Endpoint) rematch(r *ope.Rxe, kind match.Kind, tag uint64, from match.Source) {
	o := e.table.Arrive(kind, tag, from)
	taken := o != nil && e.multi.match(r, e.pools.Entries.At(o.Owner), nil)
	if !taken && (e.srx == nil || !e.srx.arrive(r, kind, tag)) {
		e.table.AddMsg(r.List())
	}
}

// waiting lists a peer's messages that wait for a receive, or are parked, in their order.
func waiting(p *ope.Pools, l *peer.Link) []*ope.Rxe {
	var list []*ope.Rxe
	p.EachRx(func(r *ope.Rxe) {
		if r.Link() == l && r.Waits() {
			list = append(list, r)
		}
	})
	slices.SortFunc(list, func(a, b *ope.Rxe) int { return int(int32(a.MsgID() - b.MsgID())) })
	return list
}

// anyParked reports whether a message of the peer's is parked.
func anyParked(p *ope.Pools, l *peer.Link) bool {
	return slices.ContainsFunc(waiting(p, l), (*ope.Rxe).Parked)
}

// failReceives ends the posted receives that keep does not want.
func (e *Endpoint) failReceives(keep func(*ope.Entry) bool, err error) {
	e.watches.fail(keep, err)
	if e.table == nil {
		return
	}
	var doomed []*ope.Entry
	e.table.EachRecv(func(r *match.Recv) bool {
		if p := e.pools.Entries.At(r.Owner); !keep(p) {
			doomed = append(doomed, p)
		}
		return true
	})
	for _, p := range doomed {
		e.table.RemoveRecv(&p.Recv)
		e.end(p, err)
	}
	e.claims.waits.fail(&e.claims, keep, err)
}

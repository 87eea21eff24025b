package endpoint

import (
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
)

// posting is a posted receive that waits for a message.
type posting struct {
	recv match.Recv
	req  ope.Request
	from *peer.Link // the only one that can satisfy it; nil: anybody
	next *posting
}

// postedPool keeps postings by index, since that is what the matcher returns.
type postedPool struct {
	slabs [][]posting
	free  *posting
}

const postedSlab = 64

func (p *postedPool) get() *posting {
	if p.free == nil {
		s := make([]posting, postedSlab)
		for i := range s {
			s[i].recv.Owner = int32(len(p.slabs)*postedSlab + i)
		}
		p.slabs = append(p.slabs, s)
		for i := len(s) - 1; i >= 0; i-- {
			s[i].next, p.free = p.free, &s[i]
		}
	}
	x := p.free
	p.free, x.next = x.next, nil
	return x
}

func (p *postedPool) at(i int32) *posting { return &p.slabs[i/postedSlab][i%postedSlab] }

func (p *postedPool) put(x *posting) {
	x.req = ope.Request{}
	if x.from != nil {
		x.from.Awaited()
		x.from = nil
	}
	x.next, p.free = p.free, x
}

// onArrive: an RTM whose turn it is. The first packet of a message makes an rxe
// and is matched; further ones go to the rxe that the first one made.
func (e *Endpoint) onArrive(pkt *peer.Packet) {
	sh := e.cfg.Shard
	if pkt.Multi != nil && !pkt.Multi.Rx.IsZero() {
		sh.Tell(pkt.Multi.Rx, pkt.Deliver())
		return
	}
	if e.state != open || (pkt.Link.Err != nil && !pkt.Whole()) {
		pkt.Free() // nobody would ever end what this begins
		return
	}
	rxe := e.pools.GetRx()
	if rxe == nil {
		pkt.Free()
		return
	}
	rxe.Begin(pkt)
	k := match.Untagged
	if pkt.Tagged {
		k = match.Tagged
	}
	if r := e.table.Arrive(k, pkt.Tag, match.Source(pkt.Link.Handle)); r != nil {
		p := e.posted.at(r.Owner)
		sh.Tell(rxe.Ref(), rxe.Match(&p.req))
		e.posted.put(p)
		return
	}
	e.env.Counters.Unexpected++
	e.table.AddMsg(&rxe.Msg)
	sh.Tell(rxe.Ref(), rxe.Unexpected())
	e.checkMemory()
}

func (e *Endpoint) unlist(r *ope.Rxe) { e.table.RemoveMsg(&r.Msg) }

// failReceives ends the posted receives that keep does not want.
func (e *Endpoint) failReceives(keep func(*posting) bool, err error) {
	var doomed []*posting
	e.table.EachRecv(func(r *match.Recv) bool {
		if p := e.posted.at(r.Owner); !keep(p) {
			doomed = append(doomed, p)
		}
		return true
	})
	for _, p := range doomed {
		e.table.RemoveRecv(&p.recv)
		reject(&p.req, err)
		e.posted.put(p)
	}
}

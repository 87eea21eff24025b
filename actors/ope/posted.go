package ope

import (
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/runtime/clock"
)

// Entry is an accepted request: from the ring until its operation is over. One
// that receives waits in the matcher by its Recv.
type Entry struct {
	Recv match.Recv
	Req  Request
	Born clock.Time // when it was accepted
	Span uint64     // in the trail
	// Multi is the state of a receive of many messages.
	Multi *MultiRecv
	from  *peer.Link // the only one that can satisfy it; nil: anybody
	next  *Entry
}

// Await notes that only l's messages can satisfy the receive, so that l is watched
// while it waits.
func (o *Entry) Await(l *peer.Link) {
	o.from = l
	l.Await()
}

// settled ends Await.
func (o *Entry) settled() {
	if o.from != nil {
		o.from.Awaited()
		o.from = nil
	}
}

// Entries keeps an endpoint's posted entries by index, since that is what the matcher
// returns (match.Recv.Owner).
type Entries struct {
	slabs []*[orderSlab]Entry
	free  *Entry
}

const orderSlab = 64

// Get takes an entry for a copy of r.
func (p *Entries) Get(r *Request, now clock.Time) *Entry {
	o := p.Take(r)
	o.Born = now
	return o
}

// Take is Get for a caller that sets Born.
func (p *Entries) Take(r *Request) *Entry {
	if p.free == nil {
		p.grow()
	}
	o := p.free
	p.free = o.next
	o.Req = *r
	return o
}

// grow makes free entries.
func (p *Entries) grow() {
	s := new([orderSlab]Entry)
	for i := orderSlab - 1; i >= 0; i-- {
		s[i].Recv.Owner = int32(len(p.slabs)*orderSlab + i)
		s[i].next, p.free = p.free, &s[i]
	}
	p.slabs = append(p.slabs, s)
}

// At returns the entry with the given index.
func (p *Entries) At(i int32) *Entry { return &p.slabs[uint32(i)/orderSlab][uint32(i)%orderSlab] }

// Put gives an entry back.
func (p *Entries) Put(o *Entry) {
	if o.from != nil {
		o.settled()
	}
	o.Req.Forget()
	o.Span, o.Multi, o.Recv.Many = 0, nil, false
	o.next, p.free = p.free, o
}

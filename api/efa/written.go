package efa

import (
	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
)

// writtenRoom takes the place for a [RemoteWrite] in the receive queue, if there is
// one. It runs on the shard, as what follows.
func (c *core) writtenRoom() bool {
	s := c.recvTo
	if s == nil || s.q.reserve() {
		return true
	}
	s.behind.Store(true)
	if s.q.reserve() { // who read meanwhile did not know
		s.behind.Store(false)
		return true
	}
	return false
}

// onWritten: a peer has written here with data.
func (c *core) onWritten(w endpoint.Written) {
	c.cfg.RemoteWriteCounter.count(nil)
	if s := c.recvTo; s != nil {
		q := ope.Request{Kind: ope.KindWritten}
		r := ope.Result{N: w.N, Peer: w.Handle, From: w.From, Data: w.Data, HasData: true}
		s.ring.Put().fill(&q, &r)
		return
	}
	e := c.event(endpoint.Event{Kind: RemoteWritten, Handle: w.Handle, Addr: *w.From})
	e.N, e.Data = w.N, w.Data
	c.events.add(e)
}

// madeRoom lets the endpoints go on that found the queue full.
func (q *Queue) madeRoom(list []*source) {
	for _, s := range list {
		if s.behind.Load() && s.behind.CompareAndSwap(true, false) && s.of.live() == nil {
			s.of.control(func() {}) // a turn, at whose end it tries again
		}
	}
}

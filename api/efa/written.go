package efa

import (
	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
)

// onWritten runs on the shard when a peer has written here with data.
func (e *Endpoint) onWritten(w endpoint.Written) {
	if c := e.cfg.RemoteWriteCounter; c != nil {
		c.count(w.N, nil)
	}
	if s := e.recvTo; s != nil {
		q := ope.Request{Kind: ope.KindWritten}
		r := ope.Result{N: w.N, Peer: w.Handle, From: w.From, Data: w.Data, HasData: true}
		s.ring.Put().fill(e, &q, &r)
		return
	}
	ev := e.events.event(endpoint.Event{Kind: RemoteWritten, Handle: w.Handle, Addr: *w.From})
	ev.N, ev.Data = w.N, w.Data
	e.events.add(ev)
}

// madeRoom lets the endpoints go on that found the queue full.
func (q *Queue) madeRoom(list []*source) {
	for _, s := range list {
		if s.behind.Load() {
			s.goOn()
		}
	}
}

// goOn has the endpoint look again whether there is room for completions.
func (s *source) goOn() {
	if s.behind.CompareAndSwap(true, false) && s.of.live() == nil {
		// A turn, at whose end it tries again. If the ring is full one is due anyway, and the
		// shard itself, which may be here, must not wait for room in it.
		s.of.act.Load().Submit(&ope.Request{Kind: ope.KindControl, More: &ope.More{Run: func() {}}})
	}
}

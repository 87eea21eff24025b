package efa

import (
	"sync"

	"github.com/efactor/efactor/actors/ope"
)

// finished does what every outcome needs: what was fetched goes where it belongs,
// copies and places are given back, and it is counted.
func (c *core) finished(q *ope.Request, r *ope.Result) {
	switch q.Kind {
	case ope.KindPeek, ope.KindClaim:
		return // takes no place, and is over at once
	case ope.KindRecv, ope.KindTake:
		if r.Err == nil || r.Lost > 0 {
			scatter(q, r)
		}
		c.rx.release()
		if q.Flags&ope.Discard == 0 {
			c.cfg.RecvCounter.count(r.Err)
		}
		return
	default:
		if r.Err == nil { // else it may go on, with nobody waiting for it
			scatter(q, r)
			fetched(q)
			putMore(q)
			c.disown(q)
		}
		c.tx.release()
		c.counter(q).count(r.Err)
	}
}

// counter is where an operation that began here is counted.
func (c *core) counter(q *ope.Request) *Counter {
	switch {
	case q.Kind == ope.KindSend:
		return c.cfg.SendCounter
	case q.Kind == ope.KindWrite, q.Kind == ope.KindAtomic && q.Form == ope.AtomicWrite:
		return c.cfg.WriteCounter
	default:
		return c.cfg.ReadCounter
	}
}

// scatter fills the pieces of a request with what came.
func scatter(q *ope.Request, r *ope.Result) {
	if q.More == nil || q.More.Pieces == nil {
		return
	}
	data := q.Buf[:r.N]
	for _, p := range q.More.Pieces {
		data = data[copy(p, data):]
	}
}

// mores are used again and again by atomics that fetch.
var mores = sync.Pool{New: func() any { return new(ope.More) }}

// putMore takes back what an atomic has beyond other requests, when nobody will
// look at it again.
func putMore(q *ope.Request) {
	if q.Kind == ope.KindAtomic && q.More != nil {
		*q.More = ope.More{}
		mores.Put(q.More)
		q.More = nil
	}
}

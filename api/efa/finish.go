package efa

import (
	"sync"

	"github.com/efactor/efactor/actors/ope"
)

// freeRows is a power of two, so that no index needs a check.
const freeRows = 4

// notPlain are the flags of operations that may end with more than their place. Of Inject
// and Borrowed there are both or none in those that do not: the endpoint has no copy of their bytes.
const notPlain = ope.Inject | ope.Borrowed | ope.Discard | ope.Multi | ope.Part | ope.Sized

func (e *Endpoint) initOutcomes(cfg *EndpointConfig) {
	e.av = cfg.AV
	e.tx.init(cfg.TxDepth, 1024)
	e.rx.init(cfg.RxDepth, 16384)
	e.sent, e.received, e.wrote, e.fetched = cfg.SendCounter, cfg.RecvCounter, cfg.WriteCounter, cfg.ReadCounter
	if e.sent == nil && e.received == nil {
		e.plain = ope.KindRecv + 1
	}
}

// onlyPlace gives back the place of an operation if it had nothing else, as most have. If not
// it returns false, and finished does it.
func (e *Endpoint) onlyPlace(q *ope.Request) bool {
	f := q.Flags & notPlain
	if q.Kind >= e.plain || f != 0 && f != ope.Inject|ope.Borrowed || q.More != nil {
		return false
	}
	e.free[q.Kind%freeRows]++
	return true
}

// finished does what outcomes need: what was fetched goes where it belongs,
// copies and places are given back, and it is counted.
func (e *Endpoint) finished(q *ope.Request, r *ope.Result) {
	switch q.Kind {
	case ope.KindSend: // the others are below
		if r.Err == nil && (q.More != nil || q.Flags&(ope.Inject|ope.Borrowed) == ope.Inject) {
			left(q, r)
		}
		e.free[ope.KindSend]++
		if e.sent != nil {
			e.sent.count(r.N, r.Err)
		}
	case ope.KindPeek, ope.KindClaim:
		if q.Flags&ope.Discard != 0 {
			e.free[ope.KindRecv]++ // else it takes no place
		}
		return
	case ope.KindRecv, ope.KindTake:
		if q.Flags&(ope.Multi|ope.Part|ope.Sized) != 0 {
			e.finishedMany(q, r)
			return
		}
		if q.More != nil && (r.Err == nil || r.Lost > 0) {
			scatter(q, r)
		}
		e.free[ope.KindRecv]++
		if e.received != nil && q.Flags&ope.Discard == 0 {
			e.received.count(r.N, r.Err)
		}
		return
	default:
		if r.Err == nil {
			left(q, r)
		}
		e.free[ope.KindSend]++
		if c := e.counter(q); c != nil {
			c.count(r.N, r.Err)
		}
	}
}

// left gives back what an operation had that has succeeded: one that failed may go on, with
// nobody waiting for it.
func left(q *ope.Request, r *ope.Result) {
	if q.More != nil {
		scatter(q, r)
		fetched(q)
		putMore(q)
	}
	disown(q)
}

// counter is where an operation that began here, other than a message, is counted.
func (e *Endpoint) counter(q *ope.Request) *Counter {
	switch {
	case q.Kind == ope.KindWrite, q.Kind == ope.KindAtomic && q.Form == ope.AtomicWrite:
		return e.wrote
	default:
		return e.fetched
	}
}

// scatter fills the pieces of a request with what came.
func scatter(q *ope.Request, r *ope.Result) {
	if q.More.Pieces == nil {
		return
	}
	data := q.Buf[:r.N]
	for _, p := range q.More.Pieces {
		data = data[copy(p, data):]
	}
}

// mores are used again and again by atomics that fetch.
var mores = sync.Pool{New: func() any { return new(ope.More) }}

// putMore takes back what an atomic, or an operation with lists, has beyond other requests,
// when nobody will look at it again.
func putMore(q *ope.Request) {
	q.PutLists()
	if q.Kind == ope.KindAtomic && q.More != nil {
		*q.More = ope.More{}
		mores.Put(q.More)
		q.More = nil
	}
}

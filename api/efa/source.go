package efa

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/ring"
)

// source is where one endpoint puts its completions: written by its shard, read
// by the queue's reader.
type source struct {
	q    *Queue
	core atomic.Pointer[Endpoint] // nil once the endpoint was closed
	of   *Endpoint                // the same, for good
	ring *ring.SPSC[Completion]

	// behind: the endpoint waits for room to tell of peers' writes.
	behind atomic.Bool
}

// overflow holds what has no reserved slot: failures of operations that were to
// be silent, at most maxOverflow of them.
type overflow struct {
	n  atomic.Int64
	mu sync.Mutex
	cs []Completion
}

// maxOverflow is for applications that never read the queue of silent operations.
// Counters count those beyond it all the same.
const maxOverflow = 4096

// Done implements ope.Sink, on the shard.
func (s *source) Done(q *ope.Request, r *ope.Result) {
	o := s.of
	if !o.onlyPlace(q) {
		o.finished(q, r)
	}
	if q.Flags&ope.Quiet != 0 {
		s.quiet(q, r)
		return
	}
	s.ring.Put().fill(o, q, r) // the cell was reserved when the operation was posted
}

// quiet takes an outcome that has no completion in the ring. The failure of an operation that was to
// be silent goes elsewhere.
func (s *source) quiet(q *ope.Request, r *ope.Result) {
	if r.Err != nil {
		s.q.overflow.add(s.of, q, r)
		s.q.wake()
	}
}

// publish lets the reader see what this turn completed.
func (s *source) publish() {
	if !s.ring.Publish() {
		return
	}
	if s.core.Load() == nil { // posted so late that the endpoint was closed before
		s.q.readmit(s)
	}
	s.q.wake()
}

// readmit takes a source up again that was perhaps forgotten.
func (q *Queue) readmit(s *source) {
	q.bindMu.Lock()
	defer q.bindMu.Unlock()
	if list := *q.sources.Load(); !slices.Contains(list, s) {
		list = append(list[:len(list):len(list)], s)
		q.sources.Store(&list)
	}
}

func (o *overflow) add(of *Endpoint, q *ope.Request, r *ope.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.cs) == maxOverflow {
		return
	}
	var c Completion
	c.fill(of, q, r)
	o.cs = append(o.cs, c)
	o.n.Store(int64(len(o.cs)))
}

func (o *overflow) take(dst []Completion) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := copy(dst, o.cs)
	o.cs = append(o.cs[:0], o.cs[n:]...)
	o.n.Store(int64(len(o.cs)))
	return n
}

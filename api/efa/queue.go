package efa

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/runtime/ring"
	"github.com/efactor/efactor/runtime/shard"
)

// Queue collects completions of posted operations (fi_cq). Any number of
// goroutines may read it, one at a time: while one waits in Read others wait their
// turn, and a TryRead may find nothing while another one takes. Completions of
// one endpoint come in the order in which they happened.
type Queue struct {
	dom   *Domain
	depth int
	used  atomic.Int64 // slots reserved by operations, or holding a completion
	many  atomic.Int64 // receives with Multi in progress, see keepOne

	reading  atomic.Uint64             // 1 while a goroutine takes
	sources  atomic.Pointer[[]*source] // one per bound endpoint
	next     int                       // source to look at first
	waiting  atomic.Bool
	signal   shard.Signal
	overflow overflow

	bindMu  sync.Mutex // of those who change sources
	readers turnstile  // of those who wait in Read
	bound   atomic.Bool
	closed  atomic.Bool
}

const (
	defaultDepth = 1024
	maxDepth     = 1 << 20
)

// NewQueue makes a queue for up to depth outstanding operations, see Limits; 0
// means 1024.
func (d *Domain) NewQueue(depth int) (_ *Queue, err error) {
	defer formed("new queue", &err)
	if depth < 0 || depth > maxDepth {
		return nil, fmt.Errorf("%w: queue depth %d, at most %d", ErrInvalid, depth, maxDepth)
	}
	if depth == 0 {
		depth = defaultDepth
	}
	q := &Queue{dom: d, depth: depth}
	q.readers.init()
	q.sources.Store(new([]*source))
	return q, nil
}

// reserve takes slots for the completions of up to n operations, and returns how many.
func (q *Queue) reserve(n int) int {
	depth := int64(q.depth)
	if q.many.Load() > 0 {
		depth--
	}
	return q.reserveOf(depth, n)
}

func (q *Queue) reserveOf(depth int64, n int) int {
	for used := q.used.Load(); used < depth; used = q.used.Load() {
		got := min(int64(n), depth-used)
		if q.used.CompareAndSwap(used, used+got) {
			return int(got)
		}
	}
	return 0
}

// unreserve gives back the slots of n operations that did not begin. Meanwhile a peer's write
// may have found the queue full.
func (q *Queue) unreserve(n int) {
	q.used.Add(-int64(n))
	q.madeRoom(*q.sources.Load())
}

// bind adds an endpoint, and forgets those that were closed and have nothing left
// to read.
func (q *Queue) bind(c *Endpoint) (*source, error) {
	q.bindMu.Lock()
	defer q.bindMu.Unlock()
	if q.closed.Load() {
		return nil, fmt.Errorf("%w: the queue", ErrClosed)
	}
	var list []*source
	for _, s := range *q.sources.Load() {
		if s.core.Load() == c {
			return s, nil
		}
		if s.core.Load() != nil || s.ring.Len() > 0 {
			list = append(list, s)
		}
	}
	s := &source{q: q, of: c, ring: ring.NewSPSC[Completion](q.depth)}
	s.core.Store(c)
	list = append(list, s)
	q.sources.Store(&list)
	q.bound.Store(true)
	return s, nil
}

// unbind lets go of an endpoint that was closed, but not of its completions.
func (q *Queue) unbind(c *Endpoint) {
	for _, s := range *q.sources.Load() {
		s.core.CompareAndSwap(c, nil)
	}
	q.wake()
}

// wake has a reader that waits look again. It is short enough to be inlined.
func (q *Queue) wake() {
	if q.waiting.Load() {
		q.wakeReader()
	}
}

//go:noinline
func (q *Queue) wakeReader() { q.signal.Set() }

// Close fails with ErrBusy while endpoints use the queue. Readers get ErrClosed.
func (q *Queue) Close() (err error) {
	defer formed("close queue", &err)
	q.bindMu.Lock()
	defer q.bindMu.Unlock()
	for _, s := range *q.sources.Load() {
		if s.core.Load() != nil {
			return fmt.Errorf("%w: an endpoint uses the queue", ErrBusy)
		}
	}
	q.closed.Store(true)
	q.wake()
	return nil
}

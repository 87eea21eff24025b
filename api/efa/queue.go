package efa

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/ring"
	"github.com/efactor/efactor/runtime/shard"
)

// Queue collects completions of posted operations (fi_cq). One goroutine at a
// time reads it; TryRead of others finds nothing meanwhile. Completions of one
// endpoint come in the order in which they happened.
type Queue struct {
	dom   *Domain
	depth int
	used  atomic.Int64 // slots reserved by operations, or holding a completion

	reading  atomic.Bool
	sources  atomic.Pointer[[]*source] // one per bound endpoint
	next     int                       // source to look at first
	waiting  atomic.Bool
	signal   shard.Signal
	overflow overflow

	bindMu sync.Mutex // of those who change sources
	readMu sync.Mutex // of those who wait in Read
	closed atomic.Bool
}

// source is where one endpoint puts its completions: written by its shard, read
// by the queue's reader.
type source struct {
	q    *Queue
	core atomic.Pointer[core] // nil once the endpoint was closed
	ring *ring.SPSC[Completion]
}

// overflow holds what has no reserved slot: failures of operations that were to
// be silent (G21).
type overflow struct {
	n  atomic.Int64
	mu sync.Mutex
	cs []Completion
}

const defaultDepth = 1024

// NewQueue makes a queue for up to depth outstanding operations; 0 means 1024.
func (d *Domain) NewQueue(depth int) (*Queue, error) {
	if depth < 0 {
		return nil, fmt.Errorf("%w: queue depth %d", ErrInvalid, depth)
	}
	if depth == 0 {
		depth = defaultDepth
	}
	q := &Queue{dom: d, depth: depth}
	q.sources.Store(new([]*source))
	return q, nil
}

// reserve takes the slot for an operation's completion.
func (q *Queue) reserve() bool {
	if q.used.Add(1) > int64(q.depth) {
		q.used.Add(-1)
		return false
	}
	return true
}

func (q *Queue) bind(c *core) *source {
	q.bindMu.Lock()
	defer q.bindMu.Unlock()
	old := *q.sources.Load()
	for _, s := range old {
		if s.core.Load() == c {
			return s
		}
	}
	s := &source{q: q, ring: ring.NewSPSC[Completion](q.depth)}
	s.core.Store(c)
	list := append(old[:len(old):len(old)], s)
	q.sources.Store(&list)
	return s
}

// unbind lets go of an endpoint that was closed, but not of its completions.
func (q *Queue) unbind(c *core) {
	for _, s := range *q.sources.Load() {
		s.core.CompareAndSwap(c, nil)
	}
}

// Done implements ope.Sink, on the shard.
func (s *source) Done(q *ope.Request, r *ope.Result) {
	s.core.Load().finished(q, r)
	if q.Flags&ope.Quiet != 0 {
		if r.Err != nil {
			s.q.overflow.add(q, r)
			s.q.wake()
		}
		return
	}
	s.ring.Put().fill(q, r) // the cell was reserved when the operation was posted
}

// publish lets the reader see what this turn completed.
func (s *source) publish() {
	if s.ring.Publish() {
		s.q.wake()
	}
}

func (q *Queue) wake() {
	if q.waiting.Load() {
		q.signal.Set()
	}
}

func (o *overflow) add(q *ope.Request, r *ope.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var c Completion
	c.fill(q, r)
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

// TryRead moves completions that are there into dst and returns how many. With
// manual progress it also lets a shard that nobody runs do some work, so that
// polling alone makes progress.
func (q *Queue) TryRead(dst []Completion) int {
	n := q.take(dst)
	if n == 0 && len(dst) > 0 {
		q.progress()
		n = q.take(dst)
	}
	return n
}

func (q *Queue) take(dst []Completion) int {
	list := *q.sources.Load()
	if !q.any(list) || !q.reading.CompareAndSwap(false, true) {
		return 0
	}
	n := 0
	for range list {
		if q.next++; q.next >= len(list) {
			q.next = 0
		}
		if n += list[q.next].ring.Take(dst[n:]); n == len(dst) {
			break
		}
	}
	q.used.Add(-int64(n))
	if q.overflow.n.Load() > 0 {
		n += q.overflow.take(dst[n:])
	}
	q.reading.Store(false)
	return n
}

// any tells whether there is something to read.
func (q *Queue) any(list []*source) bool {
	for _, s := range list {
		if s.ring.Len() > 0 {
			return true
		}
	}
	return q.overflow.n.Load() > 0
}

// progress runs one turn of manual shards that nobody runs.
func (q *Queue) progress() {
	if q.dom.Progress() != ProgressManual {
		return
	}
	var last *shard.Shard
	for _, s := range *q.sources.Load() {
		if c := s.core.Load(); c != nil && c.sh != last {
			last = c.sh
			last.Drive()
		}
	}
}

// Read waits until there are completions, moves them into dst and returns how
// many, at least one unless the error says why not: that of ctx, or ErrClosed.
func (q *Queue) Read(ctx context.Context, dst []Completion) (int, error) {
	if len(dst) == 0 {
		return 0, fmt.Errorf("%w: Read needs room for a completion", ErrInvalid)
	}
	q.readMu.Lock()
	defer q.readMu.Unlock()
	for {
		if n := q.take(dst); n > 0 {
			return n, nil
		}
		if q.closed.Load() {
			return 0, fmt.Errorf("%w: queue", ErrClosed)
		}
		sh := q.shardToRun()
		if sh == nil {
			return 0, fmt.Errorf("%w: no endpoint uses the queue", ErrBadState)
		}
		q.signal.Reset()
		q.waiting.Store(true)
		if n := q.take(dst); n > 0 {
			q.waiting.Store(false)
			return n, nil
		}
		err := sh.Wait(ctx, &q.signal)
		q.waiting.Store(false)
		if err != nil {
			if n := q.take(dst); n > 0 {
				return n, nil
			}
			return 0, contextError(ctx, err)
		}
	}
}

// shardToRun is the shard whose progress a waiting reader makes.
func (q *Queue) shardToRun() *shard.Shard {
	for _, s := range *q.sources.Load() {
		if c := s.core.Load(); c != nil {
			return c.sh
		}
	}
	return nil
}

// All yields completions until ctx ends or the queue is closed; the last one
// comes with the error.
func (q *Queue) All(ctx context.Context) iter.Seq2[Completion, error] {
	return func(yield func(Completion, error) bool) {
		var cs [64]Completion
		for {
			n, err := q.Read(ctx, cs[:])
			for _, c := range cs[:n] {
				if !yield(c, nil) {
					return
				}
			}
			if err != nil {
				yield(Completion{}, err)
				return
			}
		}
	}
}

// Close fails with ErrBusy while endpoints use the queue. Readers get ErrClosed.
func (q *Queue) Close() error {
	for _, s := range *q.sources.Load() {
		if s.core.Load() != nil {
			return fmt.Errorf("%w: an endpoint uses the queue", ErrBusy)
		}
	}
	q.closed.Store(true)
	q.signal.Set()
	return nil
}

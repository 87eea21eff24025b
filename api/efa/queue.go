package efa

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/ope"
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

	reading  atomic.Bool
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

// source is where one endpoint puts its completions: written by its shard, read
// by the queue's reader.
type source struct {
	q    *Queue
	core atomic.Pointer[core] // nil once the endpoint was closed
	of   *core                // the same, for good
	ring *ring.SPSC[Completion]
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

const (
	defaultDepth = 1024
	maxDepth     = 1 << 20
)

// NewQueue makes a queue for up to depth outstanding operations, see Limits; 0
// means 1024.
func (d *Domain) NewQueue(depth int) (*Queue, error) {
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

// reserve takes the slot for an operation's completion.
func (q *Queue) reserve() bool {
	if q.used.Add(1) > int64(q.depth) {
		q.used.Add(-1)
		return false
	}
	return true
}

// bind adds an endpoint, and forgets those that were closed and have nothing left
// to read.
func (q *Queue) bind(c *core) (*source, error) {
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
func (q *Queue) unbind(c *core) {
	for _, s := range *q.sources.Load() {
		s.core.CompareAndSwap(c, nil)
	}
	q.wake()
}

// Done implements ope.Sink, on the shard.
func (s *source) Done(q *ope.Request, r *ope.Result) {
	s.of.finished(q, r)
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

func (q *Queue) wake() {
	if q.waiting.Load() {
		q.signal.Set()
	}
}

func (o *overflow) add(q *ope.Request, r *ope.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.cs) == maxOverflow {
		return
	}
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
	if q.waiting.Load() && q.any(list) { // for whom this reader was in the way
		q.signal.Set()
	}
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
// many, at least one unless the error says why not: that of ctx, ErrClosed when
// everything was read and the queue or all its endpoints are closed, ErrBadState
// if no endpoint uses it yet.
func (q *Queue) Read(ctx context.Context, dst []Completion) (int, error) {
	if len(dst) == 0 {
		return 0, fmt.Errorf("%w: Read needs room for a completion", ErrInvalid)
	}
	if err := q.readers.enter(ctx); err != nil {
		return 0, err
	}
	defer q.readers.leave()
	for {
		if n := q.take(dst); n > 0 {
			return n, nil
		}
		q.signal.Reset()
		q.waiting.Store(true)
		sh, dead := q.shardToRun()
		if n := q.take(dst); n > 0 {
			q.waiting.Store(false)
			return n, nil
		}
		err := dead
		if sh != nil {
			err = sh.Wait(ctx, &q.signal)
		}
		q.waiting.Store(false)
		if err != nil {
			if n := q.take(dst); n > 0 {
				return n, nil
			}
			if dead != nil {
				return 0, dead
			}
			return 0, contextError(ctx, err)
		}
	}
}

// shardToRun is the shard whose progress a waiting reader makes, or why it need
// not wait.
func (q *Queue) shardToRun() (*shard.Shard, error) {
	for _, s := range *q.sources.Load() {
		if c := s.core.Load(); c != nil {
			return c.sh, nil
		}
	}
	switch {
	case q.closed.Load():
		return nil, fmt.Errorf("%w: the queue", ErrClosed)
	case q.bound.Load():
		return nil, fmt.Errorf("%w: all endpoints of the queue", ErrClosed)
	default:
		return nil, fmt.Errorf("%w: no endpoint uses the queue", ErrBadState)
	}
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

package efa

import (
	"context"
	"fmt"

	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/runtime/sys"
)

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
	if !q.any(list) || !q.reading.CompareAndSwap(0, 1) {
		return 0
	}
	n, at := 0, q.next
	for range list {
		if at++; at >= len(list) {
			at = 0
		}
		if n += list[at].ring.Take(dst[n:]); n == len(dst) {
			break
		}
	}
	q.next = at
	made := n
	if q.overflow.n.Load() > 0 {
		n += q.overflow.take(dst[n:])
	}
	sys.StoreRelease(&q.reading, 0)
	q.used.Add(-int64(made)) // which is also between the store and the look at waiting
	if made > 0 {
		q.madeRoom(list)
	}
	if q.waiting.Load() && q.any(list) { // for whom this reader was in the way
		q.signal.Set()
	}
	return n
}

// any reports whether there is something to read.
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
		return 0, callError("read queue", fmt.Errorf("%w: no room for a completion", ErrInvalid))
	}
	if err := q.readers.enter(ctx); err != nil {
		return 0, callError("read queue", err)
	}
	defer q.readers.leave()
	return q.read(ctx, dst)
}

// read is Read of the one reader whose turn it is.
func (q *Queue) read(ctx context.Context, dst []Completion) (int, error) {
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
				return 0, callError("read queue", dead)
			}
			return 0, callError("read queue", contextError(ctx, err))
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

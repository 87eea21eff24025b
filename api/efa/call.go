package efa

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/runtime/sys"
)

// call is a blocking call in progress.
type call struct {
	to  *outcomes // of its endpoint
	sig shard.Signal
	msg Message
	err error
}

var calls = sync.Pool{New: func() any { return new(call) }}

// spareCall is a call that an endpoint keeps for goroutines that run its shard themselves. It
// belongs to the goroutine that has taken it as the shard's owner, until it gives it back when it has
// read the outcome, after which the shard does not touch the call. If the shard closes without an
// outcome the call stays with it.
type spareCall struct {
	taken uint64        // how often it was; the shard owner's
	back  atomic.Uint64 // how often it was given back: as often, then it is free
	call
}

// newCall returns a call to wait for. owner: the caller has the shard.
func (e *intake) newCall(owner bool) *call {
	if s := &e.spare; owner && s.taken == s.back.Load() {
		s.taken++
		return &s.call
	}
	c := calls.Get().(*call)
	c.to = &e.outcomes
	return c
}

// putCall takes back a call whose outcome was read. The next one overwrites that.
func (e *intake) putCall(c *call) {
	c.sig.Clear()
	if s := &e.spare; c == &s.call {
		sys.StoreRelease(&s.back, s.taken) // nobody else takes it before that
		return
	}
	c.to, c.msg, c.err = nil, Message{}, nil
	calls.Put(c)
}

// Done implements ope.Sink, on the shard.
func (c *call) Done(q *ope.Request, r *ope.Result) {
	if !c.to.onlyPlace(q) {
		c.to.finished(q, r)
	}
	c.msg.fill(kindOf(q), q, r)
	if r.Err != nil {
		c.err = c.to.opError(q, r)
		c.sig.Set() // what comes too late is refused by goroutines that do not run the shard
		return
	}
	c.err = nil
	c.sig.SetByOwner()
}

// submit puts a request into the ring, however full it is.
func (e *intake) submit(req *ope.Request) {
	for !e.act.Load().Submit(req) {
		e.date(req)
		e.giveWay()
	}
}

// giveWay has the shard empty a ring that is full.
func (e *intake) giveWay() {
	if e.dom.sim && e.sh.Adopt() { // nobody else runs at the same time
		e.sh.Turn()
		e.sh.Release()
		return
	}
	e.sh.Drive()
	runtime.Gosched()
}

// control has f run on the shard, or, after the end of the endpoint, somewhere
// else, where it finds nothing to do.
func (e *intake) control(f func()) {
	e.submit(&ope.Request{Kind: ope.KindControl, More: &ope.More{Run: f}})
}

func (e *intake) cancel(id uint64) { e.submit(&ope.Request{Kind: ope.KindCancel, ID: id}) }

// contextError is the error of an operation that ended with its context: both
// ErrCanceled and the context's cause.
func contextError(ctx context.Context, err error) error {
	if errors.Is(err, shard.ErrClosed) {
		return ErrClosed
	}
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%w: %w", ErrCanceled, cause)
	}
	return err
}

package efa

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/shard"
)

// call is a blocking call in progress.
type call struct {
	to   *Endpoint // of its endpoint
	sig  shard.Signal
	over bool // it has its outcome, or none is due; the shard owner's
	msg  Message
	err  error // nil before the outcome
}

var calls = sync.Pool{New: func() any { return new(call) }}

// putOther takes back a call that no endpoint keeps.
func (c *call) putOther() {
	c.to, c.msg = nil, Message{}
	calls.Put(c)
}

// Done implements ope.Sink, on the shard.
func (c *call) Done(q *ope.Request, r *ope.Result) {
	if !c.to.onlyPlace(q) {
		c.to.finished(q, r)
	}
	c.msg.fill(kindOf(q.Kind, q.Flags), q, r)
	c.over = true
	if r.Err != nil {
		c.err = c.to.opError(q, r)
		c.sig.Set() // what comes too late is refused by goroutines that do not run the shard
		return
	}
	c.sig.SetByOwner()
}

// submit puts a request into the ring, however full it is.
func (e *Endpoint) submit(req *ope.Request) {
	for !e.act.Load().Submit(req) {
		e.date(req)
		e.giveWay()
	}
}

// giveWay has the shard empty a ring that is full.
func (e *Endpoint) giveWay() {
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
func (e *Endpoint) control(f func()) {
	e.submit(&ope.Request{Kind: ope.KindControl, More: &ope.More{Run: f}})
}

func (e *Endpoint) cancel(id uint64) { e.submit(&ope.Request{Kind: ope.KindCancel, ID: id}) }

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

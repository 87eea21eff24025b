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
	to  *outcomes // of its endpoint
	sig shard.Signal
	msg Message
	err error
}

var calls = sync.Pool{New: func() any { return new(call) }}

// getCall takes a call that is not in use.
func (e *intake) getCall() *call {
	x := e.spare.Swap(nil)
	if x == nil {
		x = calls.Get().(*call)
	}
	x.to = &e.outcomes
	x.sig.Reset()
	return x
}

func (e *intake) putCall(x *call) {
	x.msg, x.err, x.to = Message{}, nil, nil
	if !e.spare.CompareAndSwap(nil, x) {
		calls.Put(x)
	}
}

// Done implements ope.Sink, on the shard.
func (c *call) Done(q *ope.Request, r *ope.Result) {
	c.to.finished(q, r)
	c.msg.fill(kindOf(q), q, r)
	c.err = nil
	if r.Err != nil {
		c.err = opError(q, r)
	}
	c.sig.Set()
}

// do runs a request to its end. When ctx ends first the operation is canceled,
// and the call returns as soon as its buffer is free.
func (e *intake) do(ctx context.Context, req *ope.Request) (Message, error) {
	if err := ctx.Err(); err != nil {
		return Message{}, contextError(ctx, err)
	}
	if cr := e.credits(req); cr != nil && cr.take(1) == 0 {
		if err := cr.wait(ctx, e.sh); err != nil {
			return Message{}, err
		}
	}
	c := e.getCall()
	parent := e.parentOf(ctx)
	e.accept(req, c, &parent)
	done, ended := e.act.Do(ctx, req, &c.sig)
	if !done {
		e.submit(req)
		ended = e.sh.Wait(ctx, &c.sig)
	}
	if ended != nil && !c.sig.IsSet() {
		if errors.Is(ended, shard.ErrClosed) {
			return Message{}, ErrClosed // c stays with the shard, for good
		}
		e.cancel(req.ID)
		if err := e.sh.Wait(context.WithoutCancel(ctx), &c.sig); err != nil {
			return Message{}, ErrClosed
		}
	}
	m, err := c.msg, c.err
	e.putCall(c)
	if err != nil && ended != nil && errors.Is(err, ErrCanceled) {
		err = contextError(ctx, ended)
	}
	return m, err
}

// submit puts a request into the ring, however full it is.
func (e *intake) submit(req *ope.Request) {
	for !e.act.Submit(req) {
		if e.dom.sim && e.sh.Adopt() { // nobody else runs at the same time
			e.sh.Turn()
			e.sh.Release()
			continue
		}
		e.sh.Drive()
		runtime.Gosched()
	}
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

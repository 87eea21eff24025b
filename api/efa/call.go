package efa

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"go.opentelemetry.io/otel/trace"

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

// newCall takes a call that is not in use, when there is no spare one.
func (e *intake) newCall() *call {
	c := calls.Get().(*call)
	c.to = &e.outcomes
	return c
}

func (e *intake) putCall(x *call) {
	x.msg, x.err = Message{}, nil
	x.sig.Reset()
	if !e.spare.CompareAndSwap(nil, x) {
		x.to = nil
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

// run carries out a blocking call of which nothing but an error comes back.
func (e *intake) run(ctx context.Context, req *ope.Request) error {
	if req.Flags&ope.Inject != 0 {
		return e.inject(ctx, req)
	}
	_, err := e.do(ctx, req, &e.tx)
	return err
}

// accept makes an operation of a request that has its place: it gets an id, a sink,
// and, if it is injected, a copy of its bytes. It is to be handed to the shard then, or
// refused.
func (e *intake) accept(req *ope.Request, sink ope.Sink) {
	req.Sink = sink
	req.ID = e.lastID.Add(1)
	if req.Flags&ope.Inject != 0 {
		own(req)
	}
}

// do runs a request to its end, for which it takes one of places unless that is nil. When
// ctx ends first the operation is canceled, and the call returns as soon as its buffer is
// free.
func (e *intake) do(ctx context.Context, req *ope.Request, places *credits) (Message, error) {
	if err := ctx.Err(); err != nil {
		return Message{}, contextError(ctx, err)
	}
	if places != nil && places.take(1) == 0 {
		if err := places.wait(ctx, e.sh); err != nil {
			return Message{}, err
		}
	}
	c := e.spare.Swap(nil)
	if c == nil {
		c = e.newCall()
	}
	e.accept(req, c)
	if e.tele != nil {
		e.traced(req, trace.SpanContextFromContext(ctx))
	}
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

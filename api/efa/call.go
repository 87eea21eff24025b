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
	core *core
	sig  shard.Signal
	res  ope.Result
}

var calls = sync.Pool{New: func() any { return new(call) }}

// Done implements ope.Sink, on the shard.
func (c *call) Done(r *ope.Result) {
	c.core.finished(r)
	c.res = *r
	c.sig.Set()
}

// finished counts an outcome.
func (c *core) finished(r *ope.Result) {
	if r.Kind == ope.KindSend {
		c.tx.release()
		c.cfg.SendCounter.count(r.Err)
		return
	}
	if r.Pieces != nil && (r.Err == nil || r.Lost > 0) {
		scatter(r.Pieces, r.Gathered)
	}
	c.rx.release()
	c.cfg.RecvCounter.count(r.Err)
}

func scatter(pieces [][]byte, data []byte) {
	for _, p := range pieces {
		data = data[copy(p, data):]
	}
}

// do runs a request to its end. When ctx ends first the operation is canceled,
// and the call returns as soon as its buffer is free.
func (e *Endpoint) do(ctx context.Context, req *ope.Request, cr *credits) (ope.Result, error) {
	if err := ctx.Err(); err != nil {
		return ope.Result{}, contextError(ctx, err)
	}
	if !cr.try() {
		if err := cr.wait(ctx, e.sh); err != nil {
			return ope.Result{}, err
		}
	}
	c := calls.Get().(*call)
	c.core = e.core
	c.sig.Reset()
	req.Sink = c
	req.ID = e.lastID.Add(1)
	e.submit(req)
	err := e.sh.Wait(ctx, &c.sig)
	if err != nil && !c.sig.IsSet() {
		if errors.Is(err, shard.ErrClosed) {
			return ope.Result{}, ErrClosed // c stays with the shard, for good
		}
		e.cancel(req.ID)
		if werr := e.sh.Wait(context.WithoutCancel(ctx), &c.sig); werr != nil {
			return ope.Result{}, ErrClosed
		}
	}
	r := c.res
	c.res, c.core = ope.Result{}, nil
	calls.Put(c)
	if r.Err != nil && err != nil && errors.Is(r.Err, ErrCanceled) {
		r.Err = contextError(ctx, err)
	}
	return r, nil
}

// submit puts a request into the ring, however full it is.
func (c *core) submit(req *ope.Request) {
	for !c.act.Submit(req) {
		if c.sh.Adopt() {
			c.sh.Turn()
			c.sh.Release()
		}
		runtime.Gosched()
	}
}

// control runs f on the shard.
func (c *core) control(f func()) { c.submit(&ope.Request{Kind: ope.KindControl, Run: f}) }

func (c *core) cancel(id uint64) { c.submit(&ope.Request{Kind: ope.KindCancel, ID: id}) }

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

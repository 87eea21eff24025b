package efa

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/shard"
)

// claimed is where a blocking call makes its request: in the endpoint, whose shard is the caller's
// then until do or inject has handed the request over, or else aside. What the
// call may be refused for is checked before.
func (e *intake) claimed(aside *ope.Request) *ope.Request {
	if req := e.act.Load().Claim(); req != nil {
		return req
	}
	return aside
}

// made is do for a request that was made aside, to which it gives an ID.
func (e *intake) made(ctx context.Context, req *ope.Request, places *credits, msg *Message) error {
	if err := ctx.Err(); err != nil {
		return contextError(ctx, err)
	}
	to := e.claimed(req)
	if to != req {
		req.ID = to.ID
		*to = *req
	}
	return e.do(ctx, to, places, msg)
}

// run carries out a blocking call of which nothing but an error comes back.
func (e *intake) run(ctx context.Context, req *ope.Request) error {
	if req.Flags&ope.Inject != 0 {
		if !e.av.table.holds(req.Peer) { // what is injected is for one peer
			putMore(req)
			return errNoPeer(Addr(req.Peer))
		}
		return e.inject(ctx, req)
	}
	return e.made(ctx, req, &e.tx, nil)
}

// do runs a request to its end, for which it takes one of places unless that is nil; msg, if
// it is not nil, describes the outcome. When ctx ends first the operation is canceled,
// and the call returns as soon as its buffer is free.
func (e *intake) do(ctx context.Context, req *ope.Request, places *credits, msg *Message) error {
	if places != nil && !places.takeOne() {
		var err error
		if req, err = e.wait(ctx, req, places); err != nil {
			return err
		}
	}
	if e.tele != nil {
		e.traced(req, trace.SpanContextFromContext(ctx))
	}
	act := e.act.Load()
	owner := act.Claimed(req)
	c := e.newCall(owner)
	req.Sink = c
	id, ended := req.ID, error(nil)
	if owner {
		ended = act.Do(ctx, &c.sig)
	} else {
		e.submit(req)
		id = req.ID
		ended = e.sh.Wait(ctx, &c.sig)
	}
	if ended != nil && !c.sig.IsSet() {
		if err := e.withdraw(ctx, c, id, ended); err != nil {
			return err // c stays with the shard, for good
		}
	}
	err := c.err
	if msg != nil {
		*msg = c.msg
	}
	e.putCall(c)
	if err != nil && ended != nil && errors.Is(err, ErrCanceled) {
		err = contextError(ctx, ended)
	}
	return err
}

// withdraw cancels the operation of a call whose wait has ended, and waits for its outcome.
func (e *intake) withdraw(ctx context.Context, c *call, id uint64, ended error) error {
	if errors.Is(ended, shard.ErrClosed) {
		return ErrClosed
	}
	e.cancel(id)
	if err := e.sh.Wait(context.WithoutCancel(ctx), &c.sig); err != nil {
		return ErrClosed
	}
	return nil
}

// wait waits for a place, and returns the request, which is aside then: nobody waits with the
// shard.
func (e *intake) wait(ctx context.Context, req *ope.Request, places *credits) (*ope.Request, error) {
	if act := e.act.Load(); act.Claimed(req) {
		req = req.Moved()
		act.Disclaim()
	}
	e.date(req)
	return req, places.wait(ctx, e.sh)
}

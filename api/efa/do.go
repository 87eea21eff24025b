package efa

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/shard"
)

// made is do for a request that was made aside, to which it gives an ID.
func (e *Endpoint) made(ctx context.Context, req *ope.Request, places *credits, msg *Message) error {
	if err := ctx.Err(); err != nil {
		return contextError(ctx, err)
	}
	if e.tele != nil {
		e.traced(req, trace.SpanContextFromContext(ctx))
	}
	to := req
	if claimed := e.act.Load().Claim(); claimed != nil {
		to = claimed
		if req.ID == 0 {
			req.ID = to.ID
		}
		*to = *req
	}
	return e.do(ctx, to, places, msg)
}

// run carries out a blocking call of which nothing but an error comes back.
func (e *Endpoint) run(ctx context.Context, req *ope.Request) error {
	if req.Flags&ope.Inject != 0 {
		if !e.av.table.holds(req.Peer) { // what is injected is for one peer
			putMore(req)
			return errNoPeer(Addr(req.Peer))
		}
		return e.inject(ctx, req)
	}
	return e.made(ctx, req, &e.tx, nil)
}

// withdraw cancels the operation of a call whose wait has ended, and waits for its outcome.
func (e *Endpoint) withdraw(ctx context.Context, c *call, id uint64, ended error) error {
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
func (e *Endpoint) wait(ctx context.Context, req *ope.Request, places *credits) (*ope.Request, error) {
	req = e.act.Load().Aside(req)
	e.date(req)
	return req, places.wait(ctx, e.sh)
}

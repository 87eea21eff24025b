package efa

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/shard"
)

// Match is which tagged messages a receive takes: those whose tag equals Tag in
// all bits that Ignore does not have.
type Match struct{ Tag, Ignore uint64 }

// AnyTag takes every tagged message.
var AnyTag = Match{Ignore: ^uint64(0)}

// Send sends p to the peer and returns when it may be used again: by default
// when the peer's device has acknowledged all of it. Messages to one peer arrive
// in the order of the calls.
//
// If ctx ends first, a message of which nothing was sent is withdrawn;
// otherwise what is left of it goes out from a copy, or, beyond DetachLimit, Send
// waits for the protocol, at most PeerTimeout.
func (e *Endpoint) Send(ctx context.Context, to Addr, p []byte, opts ...OpOption) error {
	if err := e.send(ctx, to, p, false, 0, opts); err != nil {
		return e.refused(ope.KindSend, to, err)
	}
	return nil
}

// SendTag sends p as a tagged message, see Send.
func (e *Endpoint) SendTag(ctx context.Context, to Addr, tag uint64, p []byte, opts ...OpOption) error {
	if err := e.send(ctx, to, p, true, tag, opts); err != nil {
		return e.refused(ope.KindSend, to, err)
	}
	return nil
}

// send does without a SendReq.
func (e *intake) send(ctx context.Context, to Addr, p []byte, tagged bool, tag uint64, opts []OpOption) error {
	if s := e.state.Load(); s != enabled {
		if err := e.may(CapMessages); err != nil {
			return err
		}
	}
	req := ope.Request{Kind: ope.KindSend, Flags: e.usual, Peer: uint64(to), Tag: tag, Buf: p}
	if tagged {
		req.Flags |= ope.Tagged
	}
	if len(opts) > 0 {
		var w wishes
		if !w.read(opts) {
			return w.err()
		}
		e.leaving(&req, &w)
		if w.has(optInject) {
			if len(p) > e.mostInject {
				return e.outgoing(&req, nil)
			}
			return e.inject(ctx, &req)
		}
	}
	_, err := e.do(ctx, &req, &e.tx)
	return err
}

// Recv receives the next untagged message into p. A message that is longer than p
// is cut off: the error then is ErrTruncated, and [OpError] has both lengths.
//
// If ctx ends first, the receive is withdrawn; a message that has begun to arrive
// for it is thrown away.
func (e *Endpoint) Recv(ctx context.Context, p []byte, opts ...OpOption) (Message, error) {
	m, err := e.recv(ctx, p, false, Match{}, opts)
	if err != nil {
		err = e.refused(ope.KindRecv, NoAddr, err)
	}
	return m, err
}

// RecvTag receives the oldest tagged message that m takes, see Recv.
func (e *Endpoint) RecvTag(ctx context.Context, m Match, p []byte, opts ...OpOption) (Message, error) {
	msg, err := e.recv(ctx, p, true, m, opts)
	if err != nil {
		err = e.refused(ope.KindRecv, NoAddr, err)
	}
	return msg, err
}

// recv does without a RecvReq.
func (e *intake) recv(ctx context.Context, p []byte, tagged bool, m Match, opts []OpOption) (Message, error) {
	from := AnyAddr
	if len(opts) > 0 {
		var w wishes
		if !w.read(opts) {
			return Message{}, w.err()
		}
		from = w.from()
	}
	var req ope.Request
	if err := e.receiving(&req, from, p, tagged, m); err != nil {
		return Message{}, err
	}
	return e.do(ctx, &req, &e.rx)
}

// run carries out a blocking call of which nothing but an error comes back.
func (e *intake) run(ctx context.Context, req *ope.Request) error {
	if req.Flags&ope.Inject != 0 {
		return e.inject(ctx, req)
	}
	_, err := e.do(ctx, req, &e.tx)
	return err
}

// accept makes an operation of a request that has its place: it gets a sink and, if it is
// injected, a copy of its bytes. It is to be handed to the shard then, which gives it an id, or
// refused.
func (e *intake) accept(req *ope.Request, sink ope.Sink) {
	req.Sink = sink
	if req.Flags&(ope.Inject|ope.Borrowed) == ope.Inject {
		own(req)
	}
}

// ownID marks the ids that the endpoint has not given, see [endpoint.Endpoint.Submit].
const ownID = 1 << 63

// do runs a request to its end, for which it takes one of places unless that is nil. When
// ctx ends first the operation is canceled, and the call returns as soon as its buffer is
// free.
func (e *intake) do(ctx context.Context, req *ope.Request, places *credits) (Message, error) {
	if err := ctx.Err(); err != nil {
		return Message{}, contextError(ctx, err)
	}
	if places != nil && places.take(1, false) == 0 {
		e.date(req)
		if err := places.wait(ctx, e.sh); err != nil {
			return Message{}, err
		}
	}
	if e.tele != nil {
		e.traced(req, trace.SpanContextFromContext(ctx))
	}
	act := e.act.Load()
	owner := act.Claim(req)
	c := e.newCall(owner)
	e.accept(req, c)
	var ended error
	if owner {
		ended = act.Do(ctx, req, &c.sig)
	} else {
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

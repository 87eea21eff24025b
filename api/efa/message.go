package efa

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/ope"
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
func (e *Endpoint) send(ctx context.Context, to Addr, p []byte, tagged bool, tag uint64, opts []OpOption) error {
	if e.state.Load() != enabled {
		if err := e.may(CapMessages); err != nil {
			return err
		}
	}
	var w wishes
	if len(opts) > 0 && !w.read(opts) {
		return w.err()
	}
	inject := len(opts) > 0 && w.has(optInject)
	if inject {
		if err := e.injectable(to, len(p)); err != nil {
			return err
		}
	} else if err := ctx.Err(); err != nil {
		return contextError(ctx, err)
	}
	req := e.claimed()
	req.Kind, req.Flags, req.Peer, req.Tag, req.Buf = ope.KindSend, e.usual, uint64(to), tag, p
	if tagged {
		req.Flags |= ope.Tagged
	}
	if w.kinds != 0 {
		e.leaving(req, &w)
		if inject {
			return e.inject(ctx, req)
		}
	}
	return e.do(ctx, req, &e.tx, nil)
}

// Recv receives the next untagged message into p. A message that is longer than p
// is cut off: the error then is ErrTruncated, and [OpError] has both lengths.
//
// If ctx ends first, the receive is withdrawn; a message that has begun to arrive
// for it is thrown away.
func (e *Endpoint) Recv(ctx context.Context, p []byte, opts ...OpOption) (msg Message, err error) {
	from, err := e.receives(ctx, false, opts)
	if err == nil {
		req := e.claimed()
		receive(req, from, p, false, Match{})
		err = e.do(ctx, req, &e.rx, &msg)
	}
	if err != nil {
		err = e.refused(ope.KindRecv, NoAddr, err)
	}
	return msg, err
}

// RecvTag receives the oldest tagged message that m takes, see Recv.
func (e *Endpoint) RecvTag(ctx context.Context, m Match, p []byte, opts ...OpOption) (msg Message, err error) {
	from, err := e.receives(ctx, true, opts)
	if err == nil {
		req := e.claimed()
		receive(req, from, p, true, m)
		err = e.do(ctx, req, &e.rx, &msg)
	}
	if err != nil {
		err = e.refused(ope.KindRecv, NoAddr, err)
	}
	return msg, err
}

// receives says from whom a call receives, if it may. Of its options only From means something.
func (e *Endpoint) receives(ctx context.Context, tagged bool, opts []OpOption) (from Addr, err error) {
	from = AnyAddr
	for i := range opts {
		if o := &opts[i]; o.kind == optFrom {
			from = Addr(o.u)
		} else if o.kind == optLevel {
			err = Level(o.u).check()
		}
	}
	if err != nil {
		return from, err
	}
	if e.state.Load() != enabled || from == NoAddr || e.cfg.ZeroCopyRecv {
		if err := e.receivable(from, tagged); err != nil {
			return from, err
		}
	}
	if err := ctx.Err(); err != nil {
		return from, contextError(ctx, err)
	}
	return from, nil
}

// claimed is where a blocking call makes its request: in the endpoint, whose shard is the caller's
// then until do or inject has handed the request over, or else aside, where it is no more than a
// variable of the caller's. What the call may be refused for is checked before.
func (e *Endpoint) claimed() *ope.Request {
	if req := e.act.Load().Claim(); req != nil {
		return req
	}
	return new(ope.Request)
}

// do runs a request to its end, for which it takes one of places unless that is nil; msg, if
// it is not nil, describes the outcome. When ctx ends first the operation is canceled,
// and the call returns as soon as its buffer is free.
func (e *Endpoint) do(ctx context.Context, req *ope.Request, places *credits, msg *Message) error {
	if places != nil && !places.takeOne() && places.take(1, false) == 0 {
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
	if err != nil {
		c.err = nil
	}
	if msg != nil {
		*msg = c.msg
	}
	c.sig.Clear() // nobody else takes the spare call before that
	if c != &e.spare {
		c.putOther()
	}
	if err != nil && ended != nil && errors.Is(err, ErrCanceled) {
		err = contextError(ctx, ended)
	}
	return err
}

// newCall returns a call to wait for. owner: the caller has the shard, and takes the call that the
// endpoint keeps for goroutines that run its shard themselves. That belongs to the goroutine until it
// has read the outcome and cleared the signal, after which the shard does not touch the call. If
// the shard closes without an outcome the call stays with it.
func (e *Endpoint) newCall(owner bool) *call {
	if c := &e.spare; owner && c.over && !c.sig.IsSet() {
		c.over = false
		return c
	}
	c := calls.Get().(*call)
	c.to = e
	return c
}

package efa

import (
	"context"

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
func (e *intake) send(ctx context.Context, to Addr, p []byte, tagged bool, tag uint64, opts []OpOption) error {
	if e.state.Load() != enabled {
		if err := e.may(CapMessages); err != nil {
			return err
		}
	}
	var w wishes
	if len(opts) > 0 && !w.read(opts) {
		return w.err()
	}
	inject := w.has(optInject)
	if inject {
		if err := e.injectable(to, len(p)); err != nil {
			return err
		}
	} else if err := ctx.Err(); err != nil {
		return contextError(ctx, err)
	}
	var aside ope.Request
	req := e.claimed(&aside)
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
	if err = e.recv(ctx, p, false, Match{}, opts, &msg); err != nil {
		err = e.refused(ope.KindRecv, NoAddr, err)
	}
	return msg, err
}

// RecvTag receives the oldest tagged message that m takes, see Recv.
func (e *Endpoint) RecvTag(ctx context.Context, m Match, p []byte, opts ...OpOption) (msg Message, err error) {
	if err = e.recv(ctx, p, true, m, opts, &msg); err != nil {
		err = e.refused(ope.KindRecv, NoAddr, err)
	}
	return msg, err
}

// recv does without a RecvReq.
func (e *intake) recv(ctx context.Context, p []byte, tagged bool, m Match, opts []OpOption, msg *Message) error {
	from := AnyAddr
	if len(opts) > 0 {
		var w wishes
		if !w.read(opts) {
			return w.err()
		}
		from = w.from()
	}
	if err := e.receivable(from, tagged); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return contextError(ctx, err)
	}
	var aside ope.Request
	req := e.claimed(&aside)
	receive(req, from, p, tagged, m)
	return e.do(ctx, req, &e.rx, msg)
}

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
	return e.send(ctx, to, p, false, 0, opts)
}

// SendTag sends p as a tagged message, see Send.
func (e *Endpoint) SendTag(ctx context.Context, to Addr, tag uint64, p []byte, opts ...OpOption) error {
	return e.send(ctx, to, p, true, tag, opts)
}

// send does without a SendReq.
func (e *intake) send(ctx context.Context, to Addr, p []byte, tagged bool, tag uint64, opts []OpOption) error {
	if s := e.state.Load(); s != enabled {
		if err := e.ready(); err != nil {
			return err
		}
	}
	req := ope.Request{Kind: ope.KindSend, Flags: e.usual, Peer: uint64(to), Tag: tag, Buf: p}
	if tagged {
		req.Flags |= ope.Tagged
	}
	if len(opts) > 0 {
		w, err := wish(opts)
		if err != nil {
			return err
		}
		req.Token = w.token
		req.Flags = req.Flags&^ope.Deliver | e.flags(w.level, w.inject, false)
		withData(&req, w.hasData, w.data)
		if err := e.outgoing(&req, nil); err != nil {
			return err
		}
	}
	return e.run(ctx, &req)
}

// Recv receives the next untagged message into p. A message that is longer than p
// is cut off: the error then is ErrTruncated, and [OpError] has both lengths.
//
// If ctx ends first, the receive is withdrawn; a message that has begun to arrive
// for it is thrown away.
func (e *Endpoint) Recv(ctx context.Context, p []byte, opts ...OpOption) (Message, error) {
	return e.recv(ctx, p, false, Match{}, opts)
}

// RecvTag receives the oldest tagged message that m takes, see Recv.
func (e *Endpoint) RecvTag(ctx context.Context, m Match, p []byte, opts ...OpOption) (Message, error) {
	return e.recv(ctx, p, true, m, opts)
}

// recv does without a RecvReq.
func (e *intake) recv(ctx context.Context, p []byte, tagged bool, m Match, opts []OpOption) (Message, error) {
	from := AnyAddr
	if len(opts) > 0 {
		w, err := wish(opts)
		if err != nil {
			return Message{}, err
		}
		from = w.from
	}
	var req ope.Request
	if err := e.receiving(&req, from, p, tagged, m); err != nil {
		return Message{}, err
	}
	return e.do(ctx, &req, &e.rx)
}

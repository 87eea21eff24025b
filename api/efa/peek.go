package efa

import (
	"context"

	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
)

// Peek describes the untagged message that Recv would take now, and leaves it where
// it is. ErrNoMessage means that none has come; with [Wait], Peek waits for one, and if ctx
// ends first the error is ErrCanceled. N is the length of the message, all of which need not
// have arrived. [From] is obeyed; what waits for a peer that fails ends with ErrPeerFailed.
//
// The message is still anybody's: another goroutine's receive may take it before this one's.
// Claim does not leave it.
func (e *Endpoint) Peek(ctx context.Context, opts ...OpOption) (Message, error) {
	m, _, err := e.peek(ctx, ope.KindPeek, Match{}, false, opts)
	return m, e.refused(ope.KindPeek, NoAddr, err)
}

// PeekTag is Peek for the tagged message that RecvTag would take.
func (e *Endpoint) PeekTag(ctx context.Context, m Match, opts ...OpOption) (Message, error) {
	msg, _, err := e.peek(ctx, ope.KindPeek, m, true, opts)
	return msg, e.refused(ope.KindPeek, NoAddr, err)
}

// Claimed is a message that was taken away from all other receives, to be received
// into a buffer of the right size, or thrown away. Until then it holds memory, and
// its sender may be waiting.
type Claimed struct {
	Message Message // as Peek has it
	e       *Endpoint
	id      uint64 // of the claim
}

// Claim is Peek, and takes the message away from all other receives. With [Wait], it is how
// to receive what nobody knows the length of:
//
//	c, err := ep.Claim(ctx, efa.Wait)
//	...
//	p := make([]byte, c.Message.N)
//	_, err = c.Recv(ctx, p)
func (e *Endpoint) Claim(ctx context.Context, opts ...OpOption) (*Claimed, error) {
	return e.claim(ctx, Match{}, false, opts)
}

// ClaimTag is Claim for the tagged message that RecvTag would take.
func (e *Endpoint) ClaimTag(ctx context.Context, m Match, opts ...OpOption) (*Claimed, error) {
	return e.claim(ctx, m, true, opts)
}

func (e *Endpoint) claim(ctx context.Context, m Match, tagged bool, opts []OpOption) (*Claimed, error) {
	msg, id, err := e.peek(ctx, ope.KindClaim, m, tagged, opts)
	if err != nil {
		return nil, e.refused(ope.KindClaim, NoAddr, err)
	}
	return &Claimed{Message: msg, e: e, id: id}, nil
}

func (e *Endpoint) peek(ctx context.Context, kind ope.Kind, m Match, tagged bool, opts []OpOption) (Message, uint64, error) {
	var w wishes
	if !w.read(opts) {
		return Message{}, 0, w.err()
	}
	if err := e.live(); err != nil {
		return Message{}, 0, err
	}
	if e.cfg.ZeroCopyRecv {
		return Message{}, 0, errZeroCopy
	}
	req := ope.Request{Kind: kind, Tag: m.Tag, Ignore: m.Ignore}
	if w.has(optWait) {
		req.Flags |= ope.Await
	}
	if err := e.matching(&req, w.from(), tagged); err != nil {
		return Message{}, 0, err
	}
	var msg Message
	err := e.made(ctx, &req, nil, &msg)
	return msg, req.ID, err
}

// Recv receives the message into p, as Endpoint.Recv does. It, or Discard, is
// called once; a second call is ErrInvalid, unless ctx had ended before the first.
func (c *Claimed) Recv(ctx context.Context, p []byte) (Message, error) {
	m, err := c.take(ctx, p, 0)
	return m, c.e.refused(ope.KindTake, NoAddr, err)
}

// Discard throws the message away, and returns when all of it has come: its sender
// completes as if it had been received.
func (c *Claimed) Discard(ctx context.Context) error {
	_, err := c.take(ctx, nil, ope.Discard)
	return c.e.refused(ope.KindTake, NoAddr, err)
}

func (c *Claimed) take(ctx context.Context, p []byte, f ope.Flags) (Message, error) {
	if err := c.e.live(); err != nil {
		return Message{}, err
	}
	if c.Message.Tagged {
		f |= ope.Tagged
	}
	req := ope.Request{Kind: ope.KindTake, Peer: uint64(match.AnySource), Flags: f, Data: c.id, Buf: p}
	var msg Message
	err := c.e.made(ctx, &req, &c.e.rx, &msg)
	return msg, err
}

package efa

import (
	"fmt"

	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
)

// PeekReq asks which message a receive would take now (FI_PEEK).
type PeekReq struct {
	// From is the only sender whose messages count, or AnyAddr, if Directed is set.
	From     Addr
	Directed bool
	Tagged   bool
	Tag      uint64
	Ignore   uint64 // bits of Tag that do not matter
	Token    uint64

	// Claim takes the message away from all other receives (FI_CLAIM); Endpoint.Claimed
	// makes something of the completion that can receive it.
	Claim bool
	// Discard throws the message away (FI_DISCARD). The completion comes when all of the
	// message has come, and its sender completes as if it had been received. Until then it
	// takes a place of RxDepth.
	Discard bool
	// Wait: the completion comes when there is a message, instead of with ErrNoMessage.
	Wait bool
}

var noSpan span

// PostPeek looks for a message; what it finds goes to the RecvQueue as a completion of the
// kind [Peeked], with the length of the message in N, its sender, tag and data, or with
// ErrNoMessage in Err. ErrAgain means that the queue has no room, or, with Discard, that RxDepth
// receives are in progress; ErrInvalid that Claim and Discard are both set. See Peek, Claim and PostSend.
func (e *Endpoint) PostPeek(r *PeekReq) (OpID, error) {
	req := ope.Request{Kind: ope.KindPeek, Tag: r.Tag, Ignore: r.Ignore, Token: r.Token}
	if err := e.live(); err != nil {
		return 0, e.refused(ope.KindPeek, NoAddr, err)
	}
	from := AnyAddr
	if r.Directed {
		from = r.From
	}
	if e.cfg.ZeroCopyRecv {
		return 0, e.refused(ope.KindPeek, NoAddr, errZeroCopy)
	}
	if err := e.matching(&req, from, r.Tagged); err != nil {
		return 0, e.refused(ope.KindPeek, NoAddr, err)
	}
	if r.Wait {
		req.Flags |= ope.Await
	}
	switch {
	case r.Claim && r.Discard:
		return 0, e.refused(ope.KindPeek, NoAddr, fmt.Errorf("%w: a peek that claims and discards", ErrInvalid))
	case r.Discard:
		req.Flags |= ope.Discard
		return e.post(&req, e.recvTo, &e.rx, &noSpan)
	case r.Claim:
		req.Kind = ope.KindClaim
	}
	return e.postPeek(&req)
}

// postPeek is post for what takes no place.
func (e *Endpoint) postPeek(req *ope.Request) (OpID, error) {
	to := e.recvTo
	if to == nil {
		return 0, e.refused(req.Kind, peerOf(req), errNoQueue)
	}
	if to.q.reserve(1) == 0 {
		return 0, errsAgain[req.Kind]
	}
	e.accept(req, to)
	if !e.act.Load().Submit(req) {
		to.q.unreserve(1)
		return 0, errsAgain[req.Kind]
	}
	return OpID(req.ID), nil
}

// Claimed is the message that a posted [PeekReq] with Claim has taken, of whose completion
// c is; nil if that failed or is another's.
func (e *Endpoint) Claimed(c *Completion) *Claimed {
	if c.Kind != Peeked || c.Err != nil {
		return nil
	}
	return &Claimed{Message: c.Message, e: e, id: uint64(c.ID)}
}

// PostRecv is Recv as a posted operation: of r, the buffer, Quiet, Token and Parent count.
// The outcome goes to the RecvQueue.
func (c *Claimed) PostRecv(r *RecvReq) (OpID, error) {
	if err := c.e.live(); err != nil {
		return 0, c.e.refused(ope.KindRecv, NoAddr, err)
	}
	req := ope.Request{Kind: ope.KindTake, Peer: uint64(match.AnySource), Data: c.id, Buf: r.Buf, Token: r.Token}
	if c.Message.Tagged {
		req.Flags |= ope.Tagged
	}
	if r.Quiet {
		req.Flags |= ope.Quiet
	}
	if r.Bufs != nil {
		if err := c.e.incoming(&req, r.Bufs); err != nil {
			return 0, c.e.refused(ope.KindRecv, NoAddr, err)
		}
	}
	return c.e.post(&req, c.e.recvTo, &c.e.rx, &r.Parent)
}

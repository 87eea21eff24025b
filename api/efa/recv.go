package efa

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
)

// Match is which tagged messages a receive takes: those whose tag equals Tag in
// all bits that Ignore does not have.
type Match struct{ Tag, Ignore uint64 }

// AnyTag takes every tagged message.
var AnyTag = Match{Ignore: ^uint64(0)}

// RecvReq is a receive to post.
type RecvReq struct {
	// From is the only sender to receive from, or AnyAddr; it counts if Directed is
	// set, otherwise messages of all are taken.
	From     Addr
	Directed bool
	Buf      []byte
	Bufs     [][]byte // instead of Buf: at most IOVLimit pieces, filled one after the other
	Tagged   bool
	Tag      uint64
	Ignore   uint64 // bits of Tag that do not matter
	// Multi: Buf takes message after message, each at a multiple of [MultiRecvAlign], until less
	// than MinLeft bytes of it are left; 0 means EndpointConfig.MinMultiRecv. A message that is
	// longer than what is left goes to the next receive that takes it, and Buf is released;
	// only if nothing was in Buf yet the message is cut off (ErrTruncated). Each message has a
	// completion, for which the queue must have room: without it the message waits as if nobody
	// received it. The last completion is [Released]. Cancel releases the buffer after the
	// messages that have their place in it. Bufs is ErrInvalid, and so is Start.
	Multi   bool
	MinLeft int
	// Quiet: report failure only. Of a Multi its messages are quiet; that the buffer is
	// released is reported always.
	Quiet  bool
	Token  uint64
	Parent trace.SpanContext
}

// Recv receives the next untagged message into p. A message that is longer than p
// is cut off: the error then is ErrTruncated, and [OpError] has both lengths.
//
// If ctx ends first, the receive is withdrawn; a message that has begun to arrive
// for it is thrown away.
func (e *Endpoint) Recv(ctx context.Context, p []byte, opts ...OpOption) (msg Message, err error) {
	from, err := e.receives(ctx, opts)
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
	from, err := e.receives(ctx, opts)
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
func (e *Endpoint) receives(ctx context.Context, opts []OpOption) (from Addr, err error) {
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
	if e.state.Load() != enabled || from == NoAddr {
		if err := e.receivable(from); err != nil {
			return from, err
		}
	}
	if err := ctx.Err(); err != nil {
		return from, contextError(ctx, err)
	}
	return from, nil
}

// PostRecv posts a receive, whose outcome goes to the RecvQueue; see PostSend. With Multi its
// buffer takes many messages, see [RecvReq].
func (e *Endpoint) PostRecv(r *RecvReq) (OpID, error) {
	from := r.from()
	if e.state.Load() != enabled || e.recvTo == nil || from != AnyAddr {
		if err := e.unreceivable(from); err != nil {
			return 0, err
		}
	}
	quiet := r.Quiet && !r.Multi
	req := e.room(e.recvTo, &e.rx, quiet)
	if req == nil {
		return 0, errsAgain[ope.KindRecv]
	}
	if err := e.fillRecv(req, from, r); err != nil {
		e.giveUp(req, e.recvTo, &e.rx, quiet)
		return 0, e.refused(ope.KindRecv, NoAddr, err)
	}
	return e.hand(req, e.recvTo, &r.Parent)
}

// unreceivable says why PostRecv refuses a receive before there is a request, if it does.
func (e *Endpoint) unreceivable(from Addr) error {
	if err := e.receivable(from); err != nil {
		return e.refused(ope.KindRecv, NoAddr, err)
	}
	switch {
	case e.recvTo == nil:
		return e.refused(ope.KindRecv, from, errNoQueue)
	case from != AnyAddr && !e.av.table.holds(uint64(from)):
		return e.refused(ope.KindRecv, from, errNoPeer(from))
	}
	return nil
}

// PostRecvs posts receives in their order until one is refused, see PostSends.
func (e *Endpoint) PostRecvs(rs []RecvReq) (int, error) {
	b := batch{e: e, to: e.recvTo, places: &e.rx}
	for i := range rs {
		r := &rs[i]
		if !b.begin(len(rs)-i) || !b.made(e.recvRequest(&b.req, r)) || !b.push(&r.Parent) {
			break
		}
	}
	return b.end()
}

func (r *RecvReq) request(e *Endpoint, req *ope.Request) (*span, error) {
	return &r.Parent, e.recvRequest(req, r)
}

func (r *RecvReq) target() (ope.Kind, Addr) { return ope.KindRecv, NoAddr }

// from is the only sender to receive from, or AnyAddr.
func (r *RecvReq) from() Addr {
	if r.Directed {
		return r.From
	}
	return AnyAddr
}

// recvRequest checks a receive and makes the request for the shard of req, which is zero.
func (e *Endpoint) recvRequest(req *ope.Request, r *RecvReq) error {
	from := r.from()
	if err := e.receivable(from); err != nil {
		return err
	}
	return e.fillRecv(req, from, r)
}

// receivable checks whether the endpoint may receive messages from such a sender.
func (e *Endpoint) receivable(from Addr) error {
	if e.state.Load() != enabled {
		if err := e.live(); err != nil {
			return err
		}
	}
	return from.sends()
}

// fillRecv makes the request of a receive that may be posted, of one that is zero but for its ID.
func (e *Endpoint) fillRecv(req *ope.Request, from Addr, r *RecvReq) error {
	receive(req, from, r.Buf, r.Tagged, Match{r.Tag, r.Ignore})
	req.Token = r.Token
	if r.Multi {
		return e.multiRequest(req, r)
	}
	if r.Quiet {
		req.Flags |= ope.Quiet
	}
	if r.Bufs != nil {
		return e.incoming(req, r.Bufs)
	}
	return nil
}

// receive makes the request of a receive, of one that is zero but for its ID.
func receive(req *ope.Request, from Addr, p []byte, tagged bool, m Match) {
	req.Kind, req.Peer, req.Tag, req.Ignore, req.Buf = ope.KindRecv, uint64(from), m.Tag, m.Ignore, p
	if tagged {
		req.Flags = ope.Tagged
	}
}

// receiving checks a receive and makes its request, of one that is zero but for its ID.
func (e *Endpoint) receiving(req *ope.Request, from Addr, p []byte, tagged bool, m Match) error {
	if err := e.receivable(from); err != nil {
		return err
	}
	receive(req, from, p, tagged, m)
	return nil
}

// sends refuses NoAddr as the sender of a receive.
func (a Addr) sends() error {
	if a == NoAddr {
		return fmt.Errorf("%w: receive from no peer (handle %d)", ErrInvalid, a)
	}
	return nil
}

var errBothBufs = fmt.Errorf("%w: a request has Buf or Bufs, not both", ErrInvalid)

// incoming sets up pieces to be filled.
func (e *Endpoint) incoming(req *ope.Request, pieces [][]byte) error {
	if len(pieces) == 0 {
		return nil
	}
	err := pieced(req, pieces)
	if err == nil && e.cfg.Direct && req.Flags&ope.HasIOV != 0 {
		n := req.Len()
		req.PutIOV()
		req.More = &ope.More{Pieces: slices.Clone(pieces)}
		req.Buf = make([]byte, n)
	}
	return err
}

// receives reports whether a request is a receive.
func receives(req *ope.Request) bool { return req.Kind == ope.KindRecv || req.Kind == ope.KindTake }

// MultiRecvAlign is what Completion.Offset of each message in the buffer of a receive with
// Multi is a multiple of. A message uses up its length, rounded up to it.
const MultiRecvAlign = ope.MultiAlign

var errMultiStart = fmt.Errorf("%w: a receive with Multi has many outcomes: they want a queue", ErrInvalid)

// multiRequest goes on with the request of a receive with Multi.
func (e *Endpoint) multiRequest(req *ope.Request, r *RecvReq) error {
	switch {
	case e.cfg.Direct:
		return fmt.Errorf("%w: Multi on an endpoint with Direct", ErrNotSupported)
	case r.Bufs != nil || len(r.Buf) == 0 || r.MinLeft < 0:
		return fmt.Errorf("%w: a receive with Multi has one buffer, of %d bytes, and MinLeft %d", ErrInvalid, len(r.Buf), r.MinLeft)
	case e.cfg.RecvQueue != nil && e.cfg.RecvQueue.depth < 2:
		return fmt.Errorf("%w: a receive with Multi on a queue for one completion: its end takes one, and each message", ErrInvalid)
	}
	req.Flags |= ope.Multi
	if r.Quiet {
		req.Flags |= ope.QuietParts
	}
	req.Data = uint64(r.MinLeft)
	if r.MinLeft == 0 {
		req.Data = uint64(e.minMulti())
	}
	return nil
}

// minMulti is EndpointConfig.MinMultiRecv in force.
func (e *Endpoint) minMulti() int {
	if n := e.cfg.MinMultiRecv; n > 0 {
		return n
	}
	return e.dom.fab.dev.Info().MTU
}

// finishedMany is finished of receives that are not for one message of a known size.
func (e *Endpoint) finishedMany(q *ope.Request, r *ope.Result) {
	if q.Flags&ope.Part == 0 {
		e.free[ope.KindRecv]++
	}
	if s, ok := q.Sink.(*source); ok && q.Flags&ope.Multi != 0 {
		s.q.leaveOne()
	}
	switch {
	case e.received == nil:
	case r.Err == nil && (q.Flags&ope.Multi != 0 || r.N < 0): // no message has been received by that
	default:
		e.received.count(r.Err)
	}
}

// Next receives the next untagged message, whatever its size, into a buffer of the endpoint's,
// which the caller gives back by [Delivery.Release]. [From] is obeyed.
//
// At most EndpointConfig.NextMemory bytes are lent at a time, for a message at least an MTU,
// plus an MTU for each call that waits; when they are used up Next waits for a Release, and
// messages stay with the endpoint as those do that nobody receives, or with their senders. A
// longer message than that is a [TooLongError].
//
// If ctx ends first, no message is lost: what the call had taken is for another one. An error
// of a message (its peer failed, TooLongError) is of that message alone. Any number of
// goroutines may call it; what one call after the other gets from a peer is in the order of
// the sends. It allocates nothing for messages of up to a packet.
func (e *Endpoint) Next(ctx context.Context, opts ...OpOption) (Delivery, error) {
	d, _, err := e.inbox.next(ctx, Match{}, false, opts)
	return d, e.refused(ope.KindRecv, NoAddr, err)
}

// NextTag is Next for the tagged messages that m takes.
func (e *Endpoint) NextTag(ctx context.Context, m Match, opts ...OpOption) (Delivery, error) {
	d, _, err := e.inbox.next(ctx, m, true, opts)
	return d, e.refused(ope.KindRecv, NoAddr, err)
}

// Messages calls Next again and again. Each message is released at the next step of the loop,
// and at its end, unless [Delivery.Keep] was called. After the error of a single message the
// loop may go on; an error that concerns all, as ErrClosed or that of ctx, is the last.
func (e *Endpoint) Messages(ctx context.Context, opts ...OpOption) iter.Seq2[Delivery, error] {
	return e.inbox.each(ctx, Match{}, false, opts)
}

// MessagesTag is Messages for the tagged messages that m takes.
func (e *Endpoint) MessagesTag(ctx context.Context, m Match, opts ...OpOption) iter.Seq2[Delivery, error] {
	return e.inbox.each(ctx, m, true, opts)
}

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

// Claimed is a message that was taken away from all other receives, to be received
// into a buffer of the right size, or thrown away. Until then it holds memory, and
// its sender may be waiting.
type Claimed struct {
	Message Message // as Peek has it
	e       *Endpoint
	id      uint64 // of the claim
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

// matching says which messages a request takes.
func (e *Endpoint) matching(req *ope.Request, from Addr, tagged bool) error {
	if err := from.sends(); err != nil {
		return err
	}
	req.Peer = uint64(from)
	if tagged {
		req.Flags |= ope.Tagged
	}
	return nil
}

// The matcher's number for every sender is the same; else this does not compile.
const _ = -(uint64(AnyAddr) - uint64(match.AnySource))

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

package efa

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/ope"
)

// WriteReq is a write to a peer's memory, see [Endpoint.Write].
type WriteReq struct {
	To   Addr
	At   Remote
	Buf  []byte
	Bufs [][]byte // instead of Buf: pieces, gathered at the call
	// HasData sends Data along as remote CQ data.
	HasData bool
	Data    uint64
	Inject  bool  // see [Inject]
	Quiet   bool  // see [Quiet]
	Level   Level // 0: the endpoint's default
	Token   any   // comes back in the completion; nil: that of the view
	Parent  trace.SpanContext
}

// ReadReq is a read of a peer's memory, see [Endpoint.Read].
type ReadReq struct {
	From  Addr // whose memory
	At    Remote
	Buf   []byte
	Bufs  [][]byte // instead of Buf: filled one after the other
	Quiet bool
	Token any

	Parent trace.SpanContext
}

func (r *WriteReq) parent() *trace.SpanContext { return &r.Parent }
func (r *ReadReq) parent() *trace.SpanContext  { return &r.Parent }

// Write puts p at the beginning of at, which is memory of the peer to that has
// AccessRemoteWrite, and returns when p may be used again. at may be longer than p;
// a shorter one is ErrInvalid. Writes have no order with anything else, and the
// peer's program hears of those only that carry [Data].
//
// With the level Transmitted a write that fits a packet has only reached the peer's
// device when it completes. If the peer then finds that the memory is not there, or
// not to be written, nobody but the peer hears of it ([AccessRefused]). Complete
// with Delivered to know: then everybody there sees the data, or the error is
// ErrAccess. A libfabric peer, and all until after release 2.6, refuses in silence;
// then the error is ErrTimedOut after PeerTimeout. Where the devices write by
// themselves both levels are the same.
//
// If ctx ends first, the write ends with that; some of the bytes may have been
// written.
func (e *Endpoint) Write(ctx context.Context, to Addr, at Remote, p []byte, opts ...OpOption) error {
	s := e.def
	s.apply(opts)
	if err := s.check(); err != nil {
		return err
	}
	var req ope.Request
	if err := e.writeRequest(&req, &WriteReq{To: to, At: at, Buf: p}, &s); err != nil {
		return err
	}
	return e.run(ctx, &req)
}

// Read fills p from the beginning of at, which is memory of the peer from that has
// AccessRemoteRead. at may be longer than p; a shorter one is ErrInvalid. Reads have
// no order with anything else. A peer that refuses says so, and the error is
// ErrAccess; for peers that have no word for it see [Endpoint.Write].
//
// If ctx ends first, or after an error, p has anything in it.
func (e *Endpoint) Read(ctx context.Context, from Addr, at Remote, p []byte, opts ...OpOption) error {
	s := e.def
	s.apply(opts)
	if err := s.check(); err != nil {
		return err
	}
	var req ope.Request
	if err := e.readRequest(&req, &ReadReq{From: from, At: at, Buf: p}, &s); err != nil {
		return err
	}
	req.Flags &^= ope.Quiet
	_, err := e.do(ctx, &req)
	return err
}

// writeRequest checks a write and makes the request for the shard.
func (e *Endpoint) writeRequest(req *ope.Request, r *WriteReq, s *settings) error {
	if err := e.ready(CapRMA); err != nil {
		return err
	}
	*req = ope.Request{
		Kind: ope.KindWrite, Peer: uint64(r.To), Addr: r.At.Addr, Key: r.At.Key, Buf: r.Buf,
		Token: s.tokenOf(r.Token), Flags: s.flags(r.Level, r.Inject, r.Quiet),
	}
	s.dataOf(req, r.HasData, r.Data)
	if err := e.outgoing(req, r.Bufs); err != nil {
		return err
	}
	return r.At.holds(len(req.Buf))
}

// readRequest checks a read and makes the request for the shard.
func (e *Endpoint) readRequest(req *ope.Request, r *ReadReq, s *settings) error {
	if err := e.ready(CapRMA); err != nil {
		return err
	}
	*req = ope.Request{
		Kind: ope.KindRead, Peer: uint64(r.From), Addr: r.At.Addr, Key: r.At.Key, Buf: r.Buf,
		Token: s.tokenOf(r.Token),
	}
	if r.Quiet || s.quiet {
		req.Flags |= ope.Quiet
	}
	if err := incoming(req, r.Bufs); err != nil {
		return err
	}
	return r.At.holds(len(req.Buf))
}

// holds checks that n bytes are within r, before the peer does.
func (r Remote) holds(n int) error {
	if uint64(n) > r.Len || r.Addr+r.Len < r.Addr {
		return fmt.Errorf("%w: %d bytes in remote memory of %v", ErrInvalid, n, r)
	}
	return nil
}

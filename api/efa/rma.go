package efa

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/ope"
)

// WriteReq is a write to a peer's memory, see [Memory.Write].
type WriteReq struct {
	To   Addr
	At   Remote
	Buf  []byte
	Bufs [][]byte // instead of Buf: pieces, gathered at the call
	// HasData sends Data along as remote CQ data.
	HasData bool
	Data    uint64
	Inject  bool // see [Inject]
	Quiet   bool // see [SendReq]
	Level   Level
	Fence   bool   // see [Fence]
	Token   uint64 // comes back in the completion
	Parent  trace.SpanContext
}

// ReadReq is a read of a peer's memory, see [Memory.Read].
type ReadReq struct {
	From  Addr // whose memory
	At    Remote
	Buf   []byte
	Bufs  [][]byte // instead of Buf: filled one after the other
	Quiet bool
	Fence bool // see [Fence]
	Token uint64

	Parent trace.SpanContext
}

func (r *WriteReq) request(e *checker, req *ope.Request) (*span, error) {
	return &r.Parent, e.writeRequest(req, r)
}

func (r *ReadReq) request(e *checker, req *ope.Request) (*span, error) {
	return &r.Parent, e.readRequest(req, r)
}

// writeRequest checks a write and makes the request for the shard.
func (e *checker) writeRequest(req *ope.Request, r *WriteReq) error {
	if err := r.Level.check(); err != nil {
		return err
	}
	if err := e.may(CapWrite); err != nil {
		return err
	}
	*req = ope.Request{
		Kind: ope.KindWrite, Peer: uint64(r.To), Buf: r.Buf, Token: r.Token, Flags: e.flags(r.Level, r.Inject, r.Quiet),
	}
	withData(req, r.HasData, r.Data)
	fenced(req, r.Fence)
	if err := e.outgoing(req, r.Bufs); err != nil {
		return err
	}
	return e.locate(req, r.At, len(req.Buf))
}

// readRequest checks a read and makes the request for the shard.
func (e *checker) readRequest(req *ope.Request, r *ReadReq) error {
	if err := e.may(CapRead); err != nil {
		return err
	}
	*req = ope.Request{Kind: ope.KindRead, Peer: uint64(r.From), Buf: r.Buf, Token: r.Token}
	if r.Quiet {
		req.Flags |= ope.Quiet
	}
	if e.cfg.Order != 0 {
		req.Flags |= ope.Ordered
	}
	fenced(req, r.Fence)
	if err := incoming(req, r.Bufs); err != nil {
		return err
	}
	return e.locate(req, r.At, len(req.Buf))
}

// locate says in req what the device that carries to the peer calls n bytes at at, and
// checks that they are within it, before the peer does.
func (e *checker) locate(req *ope.Request, at Remote, n int) (err error) {
	if req.Addr, req.Key, err = at.on(e.cfg.AV.gid(req.Peer), n); err != nil || n < minStriped || !e.dom.fab.twins {
		return err
	}
	if ss := e.stripes(req.Peer, at); ss != nil {
		if req.More == nil {
			req.More = new(ope.More)
		}
		req.More.Stripes = ss
	}
	return nil
}

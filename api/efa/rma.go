package efa

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/ope"
)

// WriteReq is a write to a peer's memory, see [Memory.Write].
//
// Buf, or the pieces of Bufs one after the other, go to At, or one after the other to the
// pieces of Ats. A piece may have any length, 0 too; those of Ats together must have exactly as
// many bytes as those of Bufs (ErrInvalid). The borders on the two sides need not meet. Pieces of Ats
// that overlap are written in no order. The call is one operation: it has one outcome, when all bytes have
// been written, or when one part of it has failed and the others have ended; then N counts bytes that
// were written, in any of the pieces. Data reaches the peer once, after all bytes; of a write that
// went in several parts N of its completion there may be that of the last part alone.
type WriteReq struct {
	To   Addr
	At   Remote
	Ats  []Remote // instead of At: at most RMAIOVLimit pieces of one peer's memory, see [WriteReq]
	Buf  []byte
	Bufs [][]byte // instead of Buf: at most IOVLimit pieces
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
	Ats   []Remote // instead of At: at most RMAIOVLimit pieces of one peer's memory, see [WriteReq]
	Buf   []byte
	Bufs  [][]byte // instead of Buf: at most IOVLimit pieces, filled one after the other
	Quiet bool
	Fence bool // see [Fence]
	Token uint64

	Parent trace.SpanContext
}

func (r *WriteReq) request(e *Endpoint, req *ope.Request) (*span, error) {
	return &r.Parent, e.writeRequest(req, r)
}

func (r *ReadReq) request(e *Endpoint, req *ope.Request) (*span, error) {
	return &r.Parent, e.readRequest(req, r)
}

// writeRequest checks a write and makes the request for the shard.
func (e *Endpoint) writeRequest(req *ope.Request, r *WriteReq) error {
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
	return e.locateAll(req, r.At, r.Ats)
}

// readRequest checks a read and makes the request for the shard.
func (e *Endpoint) readRequest(req *ope.Request, r *ReadReq) error {
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
	if err := e.incoming(req, r.Bufs); err != nil {
		return err
	}
	return e.locateAll(req, r.At, r.Ats)
}

// locate says in req what the device that carries to the peer calls n bytes at at, and
// checks that they are within it, before the peer does.
func (e *Endpoint) locate(req *ope.Request, at Remote, n int) (err error) {
	if req.Addr, req.Key, err = at.on(e.cfg.AV.gid(req.Peer), n); err != nil || n < minStriped || !e.dom.fab.twins || req.Flags&ope.Pieced != 0 {
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

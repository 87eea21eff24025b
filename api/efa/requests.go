package efa

import (
	"fmt"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
)

// A request struct is copied at the call and may be used again at once; the
// buffers, and the pieces of Bufs that are to be filled, are lent until the
// completion.

// span is what an operation may be part of, see [Telemetry].
type span = trace.SpanContext

// SendReq is a message to send.
type SendReq struct {
	To     Addr
	Buf    []byte
	Bufs   [][]byte // instead of Buf: pieces of one message, gathered at the call
	Tagged bool
	Tag    uint64
	// HasData sends Data along as remote CQ data.
	HasData bool
	Data    uint64
	Inject  bool // see [Inject]
	// Quiet: report failure only (FI_SELECTIVE_COMPLETION without FI_COMPLETION). A
	// queue that nobody reads keeps the first few thousand failures of Quiet and Inject.
	Quiet bool
	Level Level
	Token uint64 // comes back in the completion
	// Parent is the span that the operation is part of, if somebody looks, see
	// [Telemetry].
	Parent trace.SpanContext
}

// RecvReq is a receive to post.
type RecvReq struct {
	// From is the only sender to receive from, or AnyAddr; it counts if Directed is
	// set, otherwise messages of all are taken.
	From     Addr
	Directed bool
	Buf      []byte
	Bufs     [][]byte // instead of Buf: filled one after the other
	Tagged   bool
	Tag      uint64
	Ignore   uint64 // bits of Tag that do not matter
	Quiet    bool
	Token    uint64
	Parent   trace.SpanContext
}

func (r *SendReq) request(e *checker, req *ope.Request) (*span, error) {
	return &r.Parent, e.sendRequest(req, r)
}

func (r *RecvReq) request(e *checker, req *ope.Request) (*span, error) {
	return &r.Parent, e.recvRequest(req, r)
}

var errBothBufs = fmt.Errorf("%w: a request has Buf or Bufs, not both", ErrInvalid)

// sendRequest checks a send and makes the request for the shard of req, which is zero.
func (e *checker) sendRequest(req *ope.Request, r *SendReq) error {
	if e.state.Load() != enabled {
		if err := e.ready(); err != nil {
			return err
		}
	}
	req.Kind, req.Flags, req.Peer, req.Tag = ope.KindSend, e.usual, uint64(r.To), r.Tag
	req.Buf, req.Token = r.Buf, r.Token
	if r.Level != 0 || r.Inject || r.Quiet {
		if err := r.Level.check(); err != nil {
			return err
		}
		req.Flags = e.flags(r.Level, r.Inject, r.Quiet)
	}
	if r.Tagged {
		req.Flags |= ope.Tagged
	}
	if r.HasData {
		req.Flags |= ope.HasData
		req.Data = r.Data
	}
	if r.Bufs != nil || r.Inject {
		return e.outgoing(req, r.Bufs)
	}
	return nil
}

// withData gives a request remote CQ data.
func withData(req *ope.Request, has bool, data uint64) {
	if has {
		req.Flags |= ope.HasData
		req.Data = data
	}
}

// outgoing checks the buffer of what is to leave, gathered from pieces if there
// are some.
func (e *checker) outgoing(req *ope.Request, pieces [][]byte) error {
	if len(pieces) > 0 {
		if req.Buf != nil {
			return errBothBufs
		}
		req.Buf = gather(pieces)
	}
	if req.Flags&ope.Inject != 0 {
		if len(req.Buf) > e.mostInject {
			return fmt.Errorf("%w: inject of %d bytes, at most %d", ErrMsgSize, len(req.Buf), e.mostInject)
		}
	}
	return nil
}

// incoming sets up pieces to be filled.
func incoming(req *ope.Request, pieces [][]byte) error {
	if len(pieces) == 0 {
		return nil
	}
	if req.Buf != nil {
		return errBothBufs
	}
	req.More = &ope.More{Pieces: pieces}
	req.Buf = make([]byte, total(pieces))
	return nil
}

// recvRequest checks a receive and makes the request for the shard of req, which is zero.
func (e *checker) recvRequest(req *ope.Request, r *RecvReq) error {
	from := AnyAddr
	if r.Directed {
		from = r.From
	}
	if err := e.receiving(req, from, r.Buf, r.Tagged, Match{r.Tag, r.Ignore}); err != nil {
		return err
	}
	req.Token = r.Token
	if r.Quiet {
		req.Flags |= ope.Quiet
	}
	if r.Bufs != nil {
		return incoming(req, r.Bufs)
	}
	return nil
}

// receiving begins the request of a receive.
func (e *checker) receiving(req *ope.Request, from Addr, p []byte, tagged bool, m Match) error {
	if e.state.Load() != enabled {
		if err := e.live(); err != nil {
			return err
		}
	}
	req.Kind, req.Tag, req.Ignore, req.Buf = ope.KindRecv, m.Tag, m.Ignore, p
	return e.matching(req, from, tagged)
}

// matching says which messages a request takes.
func (e *checker) matching(req *ope.Request, from Addr, tagged bool) error {
	req.Peer = uint64(match.AnySource)
	if from != AnyAddr {
		if e.cfg.ZeroCopyRecv {
			return errZeroCopy
		}
		if from >= NoAddr {
			return fmt.Errorf("%w: receive from no peer (handle %d)", ErrInvalid, from)
		}
		req.Peer = uint64(from)
	}
	if tagged {
		if e.cfg.ZeroCopyRecv {
			return errZeroCopy
		}
		req.Flags |= ope.Tagged
	}
	return nil
}

var errZeroCopy = fmt.Errorf("%w: the receives of an endpoint with ZeroCopyRecv are untagged and from every peer", ErrNotSupported)

// receives reports whether a request is a receive.
func receives(req *ope.Request) bool { return req.Kind == ope.KindRecv || req.Kind == ope.KindTake }

func total(bs [][]byte) int {
	n := 0
	for _, b := range bs {
		n += len(b)
	}
	return n
}

func gather(bs [][]byte) []byte {
	p := make([]byte, 0, total(bs))
	for _, b := range bs {
		p = append(p, b...)
	}
	return p
}

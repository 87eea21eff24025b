package efa

import (
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
)

// A request struct and the lists in it, Bufs and Ats, are copied at the call and may be used
// again at once; the memory that they name is lent until the completion.

// span is what an operation may be part of, see [Telemetry].
type span = trace.SpanContext

// SendReq is a message to send.
type SendReq struct {
	To     Addr
	Buf    []byte
	Bufs   [][]byte // instead of Buf: at most IOVLimit pieces of one message, sent from where they lie
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
	Fence bool   // see [Fence]
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

func (r *SendReq) request(e *Endpoint, req *ope.Request) (*span, error) {
	return &r.Parent, e.sendRequest(req, r)
}

func (r *RecvReq) request(e *Endpoint, req *ope.Request) (*span, error) {
	return &r.Parent, e.recvRequest(req, r)
}

var errBothBufs = fmt.Errorf("%w: a request has Buf or Bufs, not both", ErrInvalid)

// sendRequest checks a send and makes the request for the shard of req, which is zero.
func (e *Endpoint) sendRequest(req *ope.Request, r *SendReq) error {
	if e.state.Load() != enabled {
		if err := e.may(CapMessages); err != nil {
			return err
		}
	}
	return e.fillSend(req, r)
}

// fillSend makes the request of a send, of one that is zero but for its ID.
func (e *Endpoint) fillSend(req *ope.Request, r *SendReq) error {
	f := e.usual
	if r.Level != 0 || r.Inject || r.Quiet || r.Fence {
		if err := r.Level.check(); err != nil {
			return err
		}
		f = e.flags(r.Level, r.Inject, r.Quiet)
		if r.Fence {
			f |= ope.Fence
		}
	}
	if r.Tagged {
		f |= ope.Tagged
	}
	if r.HasData {
		f |= ope.HasData
		req.Data = r.Data
	}
	req.Kind, req.Flags, req.Peer, req.Tag = ope.KindSend, f, uint64(r.To), r.Tag
	req.Buf, req.Token = r.Buf, r.Token
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

// outgoing checks the buffer, or the pieces, of what is to leave.
func (e *Endpoint) outgoing(req *ope.Request, pieces [][]byte) error {
	if len(pieces) > 0 {
		if err := pieced(req, pieces); err != nil {
			return err
		}
		if e.cfg.Direct {
			gathered(req)
		}
	}
	if req.Flags&ope.Inject != 0 {
		if n := req.Len(); n > e.mostInject {
			req.PutLists()
			return tooLongToInject(n, e.mostInject)
		}
	}
	return nil
}

func tooLongToInject(n, most int) error {
	return fmt.Errorf("%w: inject of %d bytes, at most %d", ErrMsgSize, n, most)
}

// incoming sets up pieces to be filled.
func (e *Endpoint) incoming(req *ope.Request, pieces [][]byte) error {
	if len(pieces) == 0 {
		return nil
	}
	err := pieced(req, pieces)
	if plain := e.cfg.Direct || e.cfg.ZeroCopyRecv; err == nil && plain && req.Flags&ope.Pieced != 0 {
		n := req.Len()
		req.PutLists()
		req.More = &ope.More{Pieces: slices.Clone(pieces)}
		req.Buf = make([]byte, n)
	}
	return err
}

// recvRequest checks a receive and makes the request for the shard of req, which is zero.
func (e *Endpoint) recvRequest(req *ope.Request, r *RecvReq) error {
	from := r.from()
	if err := e.receivable(from, r.Tagged); err != nil {
		return err
	}
	return e.fillRecv(req, from, r)
}

// from is the only sender to receive from, or AnyAddr.
func (r *RecvReq) from() Addr {
	if r.Directed {
		return r.From
	}
	return AnyAddr
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

// receivable checks whether the endpoint may receive such a message.
func (e *Endpoint) receivable(from Addr, tagged bool) error {
	if e.state.Load() != enabled {
		if err := e.live(); err != nil {
			return err
		}
	}
	if from == NoAddr || e.cfg.ZeroCopyRecv {
		return e.matches(from, tagged)
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

// receiving is both.
func (e *Endpoint) receiving(req *ope.Request, from Addr, p []byte, tagged bool, m Match) error {
	if err := e.receivable(from, tagged); err != nil {
		return err
	}
	receive(req, from, p, tagged, m)
	return nil
}

// The matcher's number for every sender is the same; else this does not compile.
const _ = -(uint64(AnyAddr) - uint64(match.AnySource))

// matching says which messages a request takes.
func (e *Endpoint) matching(req *ope.Request, from Addr, tagged bool) error {
	if err := e.matches(from, tagged); err != nil {
		return err
	}
	req.Peer = uint64(from)
	if tagged {
		req.Flags |= ope.Tagged
	}
	return nil
}

// matches checks whether messages may be asked for so.
func (e *Endpoint) matches(from Addr, tagged bool) error {
	switch {
	case e.cfg.ZeroCopyRecv && (tagged || from != AnyAddr):
		return errZeroCopy
	case from == NoAddr:
		return fmt.Errorf("%w: receive from no peer (handle %d)", ErrInvalid, from)
	default:
		return nil
	}
}

var errZeroCopy = fmt.Errorf("%w: the receives of an endpoint with ZeroCopyRecv are untagged and from every peer", ErrNotSupported)

// receives reports whether a request is a receive.
func receives(req *ope.Request) bool { return req.Kind == ope.KindRecv || req.Kind == ope.KindTake }

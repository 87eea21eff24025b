package efa

import (
	"fmt"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/atomics"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/wire"
)

// AtomicOp is an operation on elements of a peer's memory (enum fi_op, §3.3). Each
// element is updated at once, an array of them is not.
type AtomicOp = wire.AtomicOp

// The operations, with t for what is in memory, o for the operand and c for the
// comparand. [Update] and [Fetch] take those of the first block, but only Fetch
// takes AtomicRead; [Compare] takes the others. Minimum, maximum and the ordered
// comparisons are for all but complex numbers, those of bits and AtomicMaskedSwap for
// integers.
const (
	AtomicMin   = wire.OpMin   // t = min(t, o)
	AtomicMax   = wire.OpMax   // t = max(t, o)
	AtomicSum   = wire.OpSum   // t += o; integers wrap around
	AtomicProd  = wire.OpProd  // t *= o
	AtomicLOr   = wire.OpLOr   // t = t || o, as 1 or 0
	AtomicLAnd  = wire.OpLAnd  // t = t && o
	AtomicBOr   = wire.OpBOr   // t |= o
	AtomicBAnd  = wire.OpBAnd  // t &= o
	AtomicLXor  = wire.OpLXor  // t = t != o, of what is true
	AtomicBXor  = wire.OpBXor  // t ^= o
	AtomicRead  = wire.OpRead  // nothing but to fetch; the operand may be nil
	AtomicWrite = wire.OpWrite // t = o

	AtomicCompareSwap = wire.OpCSwap   // if c == t: t = o
	AtomicSwapNE      = wire.OpCSwapNE // if c != t: t = o
	AtomicSwapLE      = wire.OpCSwapLE // if c <= t: t = o
	AtomicSwapLT      = wire.OpCSwapLT // if c < t: t = o
	AtomicSwapGE      = wire.OpCSwapGE // if c >= t: t = o
	AtomicSwapGT      = wire.OpCSwapGT // if c > t: t = o
	AtomicMaskedSwap  = wire.OpMSwap   // t = o&c | t&^c
)

// Datatype is the type of an atomic's elements (enum fi_datatype).
type Datatype = wire.Datatype

// AtomicForm is what an atomic brings along and what it brings back.
type AtomicForm = atomics.Form

// The forms.
const (
	UpdateForm  = atomics.Write   // an operand, and nothing comes back (fi_atomic)
	FetchForm   = atomics.Fetch   // an operand, and what was there before comes back (fi_fetch_atomic)
	CompareForm = atomics.Compare // a comparand too (fi_compare_atomic)
)

// AtomicReq is an atomic on a peer's memory, see [Update], [Fetch] and [Compare].
// The slices hold elements of Type as they are in memory here, as many in each; see
// [Elements].
type AtomicReq struct {
	To      Addr
	At      Remote
	Op      AtomicOp
	Type    Datatype
	Form    AtomicForm
	Operand []byte
	Compare []byte // CompareForm
	Result  []byte // FetchForm and CompareForm: filled with what was there before
	Inject  bool   // UpdateForm: see [Inject]
	Quiet   bool
	Level   Level // UpdateForm; 0: the endpoint's default
	Token   any
	Parent  trace.SpanContext
}

func (r *AtomicReq) parent() *trace.SpanContext { return &r.Parent }

// QueryAtomic tells whether there is the operation on elements of type t in a form,
// and how many elements it takes at most (fi_query_atomic).
func (d *Domain) QueryAtomic(op AtomicOp, t Datatype, form AtomicForm) (most int, ok bool) {
	if !atomics.Valid(op, t, form) {
		return 0, false
	}
	return atomics.Count(t, form, d.maxAtomic()), true
}

// maxAtomic is the most bytes of operand and comparand.
func (d *Domain) maxAtomic() int { return max(ope.MaxAtomic(d.fab.dev.Info().MTU), 0) }

// atomicRequest checks an atomic and makes the request for the shard.
func (e *Endpoint) atomicRequest(req *ope.Request, r *AtomicReq, s *settings) error {
	if err := e.ready(CapAtomic); err != nil {
		return err
	}
	n, err := r.check(e.dom)
	if err != nil {
		return err
	}
	if err := r.At.holds(n); err != nil {
		return err
	}
	fetches := r.Form != UpdateForm
	flags := s.flags(r.Level, r.Inject, r.Quiet)
	if fetches && flags&ope.Inject != 0 { // means nothing here, and Quiet only if it was said
		flags = s.withoutInject().flags(r.Level, false, r.Quiet)
	}
	*req = ope.Request{
		Kind: ope.KindAtomic, Form: r.Form, Op: r.Op, Type: r.Type, Peer: uint64(r.To),
		Addr: r.At.Addr, Key: r.At.Key, Buf: r.Operand, Token: s.tokenOf(r.Token), Flags: flags,
	}
	toWire(&req.Buf, r.Type)
	if fetches {
		req.More = mores.Get().(*ope.More)
		req.More.Compare, req.More.Result = r.Compare, r.Result
		toWire(&req.More.Compare, r.Type)
		return nil
	}
	return e.outgoing(req, nil)
}

// check returns how many bytes of memory the atomic is about.
func (r *AtomicReq) check(d *Domain) (int, error) {
	most, ok := d.QueryAtomic(r.Op, r.Type, r.Form)
	if !ok {
		return 0, fmt.Errorf("%w: atomic %v of %v in form %d", ErrNotSupported, r.Op, r.Type, r.Form)
	}
	n := len(r.Operand)
	if r.Form != UpdateForm {
		n = len(r.Result)
	}
	size := r.Type.Size()
	switch {
	case n%size != 0,
		len(r.Operand) != n && (r.Op != AtomicRead || len(r.Operand) > 0),
		r.Form == CompareForm && len(r.Compare) != n,
		r.Form != CompareForm && len(r.Compare) > 0,
		r.Form == UpdateForm && len(r.Result) > 0:
		return 0, fmt.Errorf("%w: atomic %v of %v: operand, comparand and result of %d, %d and %d bytes",
			ErrInvalid, r.Op, r.Type, len(r.Operand), len(r.Compare), len(r.Result))
	case n/size > most:
		return 0, fmt.Errorf("%w: atomic of %d elements of %v, at most %d", ErrMsgSize, n/size, r.Type, most)
	}
	return n, nil
}

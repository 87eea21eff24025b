package efa

import (
	"fmt"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/atomics"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/api/efa/amo"
)

// AtomicReq is an atomic on a peer's memory, see [Cell].
// The slices hold elements of Type as they are in memory here, as many in each; see
// [Elements].
type AtomicReq struct {
	To      Addr
	At      Remote
	Op      amo.Op
	Type    amo.Type
	Form    amo.Form
	Operand []byte
	Compare []byte // amo.Compare
	Result  []byte // amo.Fetch and amo.Compare: filled with what was there before
	Inject  bool   // amo.Update: see [Inject]
	Quiet   bool
	Level   Level // amo.Update
	Fence   bool  // see [Fence]
	Token   uint64
	Parent  trace.SpanContext
}

func (r *AtomicReq) request(e *Endpoint, req *ope.Request) (*span, error) {
	return &r.Parent, e.atomicRequest(req, r)
}

// QueryAtomic reports whether there is the operation on elements of type t in a form,
// and how many elements it takes at most (fi_query_atomic).
func (d *Domain) QueryAtomic(op amo.Op, t amo.Type, form amo.Form) (most int, ok bool) {
	if !atomics.Valid(op, t, form) {
		return 0, false
	}
	return atomics.Count(t, form, d.maxAtomic()), true
}

// maxAtomic is the most bytes of operand and comparand.
func (d *Domain) maxAtomic() int { return maxAtomic(d.fab.dev.Info().MTU) }

func maxAtomic(mtu int) int { return max(ope.MaxAtomic(mtu), 0) }

// atomicRequest checks an atomic and makes the request for the shard.
func (e *Endpoint) atomicRequest(req *ope.Request, r *AtomicReq) error {
	if err := r.Level.check(); err != nil {
		return err
	}
	if err := e.may(CapAtomic); err != nil {
		return err
	}
	n, err := r.check(e.dom)
	if err != nil {
		return err
	}
	fetches := r.Form != amo.Update
	*req = ope.Request{
		Kind: ope.KindAtomic, Form: r.Form, Op: uint8(r.Op), Type: uint8(r.Type), Peer: uint64(r.To),
		Buf: r.Operand, Token: r.Token, Flags: e.flags(r.Level, r.Inject && !fetches, r.Quiet),
	}
	fenced(req, r.Fence)
	if err := e.locate(req, r.At, n); err != nil {
		return err
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
	if r.Form != amo.Update {
		n = len(r.Result)
	}
	size := r.Type.Size()
	switch {
	case n%size != 0,
		len(r.Operand) != n && (r.Op != amo.Read || len(r.Operand) > 0),
		r.Form == amo.Compare && len(r.Compare) != n,
		r.Form != amo.Compare && len(r.Compare) > 0,
		r.Form == amo.Update && len(r.Result) > 0:
		return 0, fmt.Errorf("%w: atomic %v of %v: operand, comparand and result of %d, %d and %d bytes",
			ErrInvalid, r.Op, r.Type, len(r.Operand), len(r.Compare), len(r.Result))
	case n/size > most:
		return 0, fmt.Errorf("%w: atomic of %d elements of %v, at most %d", ErrMsgSize, n/size, r.Type, most)
	}
	return n, nil
}

package efa

import (
	"context"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"unsafe"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/api/efa/amo"
	"github.com/efactor/efactor/wire"
)

// Cell is elements of type T in a peer's memory, one after the other: a handle like
// [Memory]. Most of its methods are those of sync/atomic and work on the first element;
// Update, Fetch and Compare do what else there is, on as many as they are given.
//
// Atomics and messages to one peer are carried out in the order of the calls. An
// operation that there is not on T is ErrNotSupported. Elements may lie at any
// address; those of 32 and 64 bits at multiples of their size are atomic against
// sync/atomic there, too.
type Cell[T Scalar] struct{ m Memory }

// NewCell is the memory as elements.
func NewCell[T Scalar](m Memory) Cell[T] { return Cell[T]{m} }

// Load returns the first element.
func (c Cell[T]) Load(ctx context.Context) (T, error) {
	var none T
	o := ones.Get().(*one)
	was := in(&o.result, none)
	return end(was, o, c.Fetch(ctx, amo.Read, nil, was))
}

// Store sets the first element to v, see Update.
func (c Cell[T]) Store(ctx context.Context, v T, opts ...OpOption) error {
	return c.update(ctx, amo.Write, v, opts)
}

// Add adds v to the first element, see Update.
func (c Cell[T]) Add(ctx context.Context, v T, opts ...OpOption) error {
	return c.update(ctx, amo.Sum, v, opts)
}

// FetchAdd adds v to the first element and returns what it was before.
func (c Cell[T]) FetchAdd(ctx context.Context, v T) (T, error) { return c.fetch(ctx, amo.Sum, v) }

// Swap sets the first element to v and returns what it was before.
func (c Cell[T]) Swap(ctx context.Context, v T) (T, error) { return c.fetch(ctx, amo.Write, v) }

// CompareSwap sets the first element to v if it equals old, and returns what it was
// before: old if it was set.
func (c Cell[T]) CompareSwap(ctx context.Context, old, v T) (T, error) {
	o := ones.Get().(*one)
	x, was := in(&o.operand, v), in(&o.result, old)
	return end(was, o, c.Compare(ctx, amo.CompareSwap, was, x))
}

// Update performs op with each of the operands on the first elements, in memory that has
// AccessRemoteWrite. It returns when the operands may be used again. They must fit a packet, see
// [Domain.QueryAtomic]; more is ErrMsgSize.
//
// With the level Transmitted it has only reached the peer's device then, and a
// refusal is seen by the peer alone; complete with Delivered to know, see
// [Memory.Write].
func (c Cell[T]) Update(ctx context.Context, op amo.Op, operands []T, opts ...OpOption) error {
	r := AtomicReq{Op: op}
	r.Operand, r.Type = Elements(operands)
	return c.m.atomic(ctx, &r, opts)
}

// Fetch is Update, and gives what was in memory before in results, of which there
// are as many as operands; amo.Read takes no operands. The memory must have
// AccessRemoteRead, and AccessRemoteWrite unless op is amo.Read. A refusal is reported
// whatever the level.
func (c Cell[T]) Fetch(ctx context.Context, op amo.Op, operands, results []T, opts ...OpOption) error {
	r := AtomicReq{Op: op, Form: amo.Fetch}
	r.Operand, r.Type = Elements(operands)
	r.Result, _ = Elements(results)
	return c.m.atomic(ctx, &r, opts)
}

// Compare is Fetch for the operations that compare: each element is compared, or
// masked, with one of compares, which is then replaced by what was in memory before.
// After an error compares has anything in it.
func (c Cell[T]) Compare(ctx context.Context, op amo.Op, compares, operands []T, opts ...OpOption) error {
	r := AtomicReq{Op: op, Form: amo.Compare}
	r.Operand, r.Type = Elements(operands)
	r.Compare, _ = Elements(compares)
	r.Result = r.Compare
	return c.m.atomic(ctx, &r, opts)
}

func (m Memory) atomic(ctx context.Context, r *AtomicReq, opts []OpOption) error {
	var w wishes
	if !w.read(opts) {
		return m.ep.refused(ope.KindAtomic, m.to, w.err())
	}
	r.To, r.At, r.Token = m.to, m.at, w.values[optToken]
	r.Inject, r.Level, r.Fence = w.has(optInject), w.level(), w.has(optFence)
	var req ope.Request
	if err := r.fill(m.ep, &req); err != nil {
		return m.ep.refused(ope.KindAtomic, m.to, err)
	}
	if err := m.ep.run(ctx, &req); err != nil {
		return m.ep.refused(ope.KindAtomic, m.to, err)
	}
	return nil
}

func (c Cell[T]) update(ctx context.Context, op amo.Op, v T, opts []OpOption) error {
	o := ones.Get().(*one)
	x := in(&o.operand, v)
	_, err := end(x, o, c.Update(ctx, op, x, opts...))
	return err
}

func (c Cell[T]) fetch(ctx context.Context, op amo.Op, v T) (T, error) {
	o := ones.Get().(*one)
	x, was := in(&o.operand, v), in(&o.result, v)
	return end(was, o, c.Fetch(ctx, op, x, was))
}

// one is room for the operand and the result of an atomic on one element, of which the
// largest is a complex128.
type one struct{ operand, result [2]uint64 }

var ones = sync.Pool{New: func() any { return new(one) }}

// in sees room for an element as a slice with v in it.
func in[T Scalar](room *[2]uint64, v T) []T {
	p := unsafe.Slice((*T)(unsafe.Pointer(room)), 1)
	p[0] = v
	return p
}

// end returns what the operation fetched, and gives the room back. After an error the room is
// left to the operation, which may still write to it.
func end[T Scalar](was []T, o *one, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	v := was[0]
	ones.Put(o)
	return v, nil
}

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
	return &r.Parent, r.fill(e, req)
}

// fill checks the atomic and makes the request for the shard of req.
func (r *AtomicReq) fill(e *Endpoint, req *ope.Request) error {
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

func (r *AtomicReq) target() (ope.Kind, Addr) { return ope.KindAtomic, r.To }

// Scalar is what atomics know of Go's types. The others have a number in package amo only.
type Scalar interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64 | ~complex64 | ~complex128
}

// Elements is v as an AtomicReq wants it: the same memory, and its type.
func Elements[T Scalar](v []T) ([]byte, amo.Type) {
	var zero T
	p := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(zero)))
	return p, datatypeOf[T]()
}

// datatypeOf finds the number of a type, named or not.
func datatypeOf[T Scalar]() amo.Type {
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Int8:
		return wire.DatatypeInt8
	case reflect.Uint8:
		return wire.DatatypeUint8
	case reflect.Int16:
		return wire.DatatypeInt16
	case reflect.Uint16:
		return wire.DatatypeUint16
	case reflect.Int32:
		return wire.DatatypeInt32
	case reflect.Uint32:
		return wire.DatatypeUint32
	case reflect.Int64:
		return wire.DatatypeInt64
	case reflect.Uint64:
		return wire.DatatypeUint64
	case reflect.Float32:
		return wire.DatatypeFloat
	case reflect.Float64:
		return wire.DatatypeDouble
	case reflect.Complex64:
		return wire.DatatypeFloatComplex
	default: // complex128 is the only one left
		return wire.DatatypeDoubleComplex
	}
}

var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// toWire makes of elements as they are in memory what packets carry, which is
// little-endian.
func toWire(p *[]byte, t amo.Type) {
	if bigEndian {
		*p = slices.Clone(*p)
		swapBytes(*p, t)
	}
}

// fetched makes of what an atomic fetched what it is in memory.
func fetched(q *ope.Request) {
	if bigEndian && q.Kind == ope.KindAtomic && q.More != nil {
		swapBytes(q.More.Result, amo.Type(q.Type))
	}
}

// swapBytes changes the byte order of elements; a complex one is two numbers.
func swapBytes(p []byte, t amo.Type) {
	size := t.Size()
	if t == wire.DatatypeFloatComplex || t == wire.DatatypeDoubleComplex || t == wire.DatatypeLongDoubleComplex {
		size /= 2
	}
	for ; len(p) >= size && size > 0; p = p[size:] {
		slices.Reverse(p[:size])
	}
}

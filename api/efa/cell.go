package efa

import (
	"context"

	"github.com/efactor/efactor/api/efa/amo"
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
	return end(o, was, c.Fetch(ctx, amo.Read, nil, was))
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
	return end(o, was, c.Compare(ctx, amo.CompareSwap, was, x))
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

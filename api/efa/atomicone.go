package efa

import (
	"context"
	"sync"
	"unsafe"
)

// one is room for the operand, the comparand and the result of an atomic on one
// element, of which the largest is a complex128.
type one struct{ operand, compare, result [2]uint64 }

var ones = sync.Pool{New: func() any { return new(one) }}

// in sees room for an element as a slice with v in it.
func in[T Scalar](room *[2]uint64, v T) []T {
	p := unsafe.Slice((*T)(unsafe.Pointer(room)), 1)
	p[0] = v
	return p
}

// end gives the room back, and what the operation fetched. After an error it is
// left to whoever may still look at it.
func end[T Scalar](o *one, was []T, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	v := was[0]
	ones.Put(o)
	return v, nil
}

// Add adds v to the element at the beginning of at, see [Update].
func Add[T Scalar](ctx context.Context, e *Endpoint, to Addr, at Remote, v T, opts ...OpOption) error {
	return update(ctx, e, to, at, AtomicSum, v, opts)
}

// Store sets the element at the beginning of at to v, see [Update].
func Store[T Scalar](ctx context.Context, e *Endpoint, to Addr, at Remote, v T, opts ...OpOption) error {
	return update(ctx, e, to, at, AtomicWrite, v, opts)
}

func update[T Scalar](ctx context.Context, e *Endpoint, to Addr, at Remote, op AtomicOp, v T, opts []OpOption) error {
	o := ones.Get().(*one)
	x := in(&o.operand, v)
	_, err := end(o, x, Update(ctx, e, to, at, op, x, opts...))
	return err
}

// Load returns the element at the beginning of at, see [Fetch].
func Load[T Scalar](ctx context.Context, e *Endpoint, to Addr, at Remote, opts ...OpOption) (T, error) {
	o, none := ones.Get().(*one), T(0)
	was := in(&o.result, none)
	return end(o, was, Fetch(ctx, e, to, at, AtomicRead, nil, was, opts...))
}

// FetchAdd adds v to the element at the beginning of at and returns what it was
// before, see [Fetch].
func FetchAdd[T Scalar](ctx context.Context, e *Endpoint, to Addr, at Remote, v T, opts ...OpOption) (T, error) {
	return fetch(ctx, e, to, at, AtomicSum, v, opts)
}

// Swap sets the element at the beginning of at to v and returns what it was before,
// see [Fetch].
func Swap[T Scalar](ctx context.Context, e *Endpoint, to Addr, at Remote, v T, opts ...OpOption) (T, error) {
	return fetch(ctx, e, to, at, AtomicWrite, v, opts)
}

func fetch[T Scalar](ctx context.Context, e *Endpoint, to Addr, at Remote, op AtomicOp, v T, opts []OpOption) (T, error) {
	o := ones.Get().(*one)
	x, was := in(&o.operand, v), in(&o.result, v)
	return end(o, was, Fetch(ctx, e, to, at, op, x, was, opts...))
}

// CompareSwap sets the element at the beginning of at to v if it equals old, and
// returns what it was before: old if it was set. See [Compare].
func CompareSwap[T Scalar](ctx context.Context, e *Endpoint, to Addr, at Remote, old, v T, opts ...OpOption) (T, error) {
	o := ones.Get().(*one)
	x, c, was := in(&o.operand, v), in(&o.compare, old), in(&o.result, v)
	return end(o, was, Compare(ctx, e, to, at, AtomicCompareSwap, x, c, was, opts...))
}

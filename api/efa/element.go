package efa

import (
	"context"
	"sync"
	"unsafe"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/api/efa/amo"
)

func (m Memory) atomic(ctx context.Context, r *AtomicReq, opts []OpOption) error {
	var w wishes
	if !w.read(opts) {
		return m.ep.refused(ope.KindAtomic, m.to, w.err())
	}
	r.To, r.At, r.Token = m.to, m.at, w.values[optToken]
	r.Inject, r.Level, r.Fence = w.has(optInject), w.level(), w.has(optFence)
	var req ope.Request
	if err := m.ep.atomicRequest(&req, r); err != nil {
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
	_, err := end(o, x, c.Update(ctx, op, x, opts...))
	return err
}

func (c Cell[T]) fetch(ctx context.Context, op amo.Op, v T) (T, error) {
	o := ones.Get().(*one)
	x, was := in(&o.operand, v), in(&o.result, v)
	return end(o, was, c.Fetch(ctx, op, x, was))
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

// end gives the room back, and what the operation fetched. After an error it is
// left to the operation, which may still write to it.
func end[T Scalar](o *one, was []T, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	v := was[0]
	ones.Put(o)
	return v, nil
}

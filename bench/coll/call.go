package main

import (
	"context"
	"fmt"

	"github.com/efactor/efactor/api/coll"
)

// call is an operation with its buffers, to be done again and again.
type call struct {
	count, size int // elements and bytes, as the table has them
	algorithm   string
	do          func(context.Context) error
	reset       func()       // spoils what the next call must overwrite
	wrong       func() int64 // elements of the result that are not what they must be
}

// work is a call whose type is known.
type work[T coll.Ordered] struct {
	c       *coll.Comm
	op      operation
	redop   string
	fold    func(a, b T) T // of the reference
	part    int            // elements
	in, out []T
	opts    []coll.Option
}

// newCall makes the call of an operation on size bytes, or as many below as its parts
// make.
func newCall[T coll.Ordered](c *coll.Comm, op operation, size, elem int, redop string, alloc func(int) ([]T, error), opts []coll.Option) (*call, error) {
	w := &work[T]{c: c, op: op, redop: redop, fold: foldOf[T](redop), part: size / elem, opts: opts}
	count := w.part
	if op.parts {
		w.part /= c.Size()
		count = w.part * c.Size()
	}
	root := c.Rank() == 0
	var err error
	if w.in, err = alloc(w.part * op.in(c.Size(), root)); err != nil {
		return nil, err
	}
	if w.out, err = alloc(w.part * op.out(c.Size(), root)); err != nil {
		return nil, err
	}
	for i := range w.in {
		w.in[i] = w.element(c.Rank(), i)
	}
	if op.name == "barrier" {
		count = 0
	}
	k := &call{count: count, size: count * elem, reset: w.reset, wrong: w.wrong}
	brings := w.part
	if op.name == "alltoall" || op.name == "reducescatter" {
		brings = count
	}
	k.algorithm = c.Chosen(op.name, brings*elem, opts...)
	k.do, err = w.do()
	return k, err
}

// do returns the function to measure.
func (w *work[T]) do() (func(context.Context) error, error) {
	c, in, out, opts := w.c, w.in, w.out, w.opts
	reduction := reductionOf[T](w.redop)
	switch w.op.name {
	case "allreduce":
		return func(ctx context.Context) error { return coll.Allreduce(ctx, c, in, out, reduction, opts...) }, nil
	case "allgather":
		return func(ctx context.Context) error { return coll.Allgather(ctx, c, in, out, opts...) }, nil
	case "alltoall":
		return func(ctx context.Context) error { return coll.Alltoall(ctx, c, in, out, opts...) }, nil
	case "reducescatter":
		return func(ctx context.Context) error { return coll.ReduceScatter(ctx, c, in, out, nil, reduction, opts...) }, nil
	case "bcast":
		if c.Rank() == 0 {
			out = in
		}
		return func(ctx context.Context) error { return coll.Bcast(ctx, c, out, 0, opts...) }, nil
	case "reduce":
		return func(ctx context.Context) error { return coll.Reduce(ctx, c, in, out, reduction, 0, opts...) }, nil
	case "gather":
		return func(ctx context.Context) error { return coll.Gather(ctx, c, in, out, 0, opts...) }, nil
	case "scatter":
		return func(ctx context.Context) error { return coll.Scatter(ctx, c, in, out, 0, opts...) }, nil
	case "scan":
		return func(ctx context.Context) error { return coll.Scan(ctx, c, in, out, reduction, opts...) }, nil
	case "barrier":
		return func(ctx context.Context) error { return coll.Barrier(ctx, c, opts...) }, nil
	}
	return nil, fmt.Errorf("operation %q cannot be called", w.op.name)
}

// want is the expected element of out at i.
func (w *work[T]) want(i int) T {
	rank, ranks, part := w.c.Rank(), w.c.Size(), max(w.part, 1)
	switch w.op.name {
	case "bcast":
		return w.element(0, i)
	case "scatter":
		return w.element(0, rank*part+i)
	case "gather", "allgather":
		return w.element(i/part, i%part)
	case "alltoall":
		return w.element(i/part, rank*part+i%part)
	case "reducescatter":
		return w.reduced(ranks, rank*part+i)
	case "scan":
		return w.reduced(rank+1, i)
	default:
		return w.reduced(ranks, i)
	}
}

// element is a rank's element at i: small, so that sums are exact in every type, and
// products for a long time.
func (w *work[T]) element(rank, i int) T {
	if w.redop == "prod" {
		return T(1 + (rank+i)%2)
	}
	return T((rank + i) % 7)
}

// reduced is the elements at i of the first ranks, one after the other.
func (w *work[T]) reduced(ranks, i int) T {
	v := w.element(0, i)
	for r := 1; r < ranks; r++ {
		v = w.fold(v, w.element(r, i))
	}
	return v
}

func (w *work[T]) reset() {
	for i := range w.out {
		w.out[i] = 101 // no element is
	}
	if w.op.name == "bcast" && w.c.Rank() == 0 {
		copy(w.out, w.in) // it sends in, and gets nothing
	}
}

func (w *work[T]) wrong() int64 { return countWrong(w.out, w.want) }

func countWrong[T comparable](got []T, want func(int) T) (n int64) {
	for i, v := range got {
		if v != want(i) {
			n++
		}
	}
	return n
}

var redops = []string{"sum", "prod", "min", "max"}

// reductionOf returns a reduction as package coll has it.
func reductionOf[T coll.Ordered](redop string) coll.Op[T] {
	switch redop {
	case "prod":
		return coll.Prod[T]
	case "min":
		return coll.Min[T]
	case "max":
		return coll.Max[T]
	default:
		return coll.Sum[T]
	}
}

// foldOf returns the same of two elements, for the reference.
func foldOf[T coll.Ordered](redop string) func(a, b T) T {
	switch redop {
	case "prod":
		return func(a, b T) T { return a * b }
	case "min":
		return func(a, b T) T { return min(a, b) }
	case "max":
		return func(a, b T) T { return max(a, b) }
	default:
		return func(a, b T) T { return a + b }
	}
}

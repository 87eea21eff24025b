package coll

import "context"

// Reduce combines the slices of all ranks, which have the same length, element by
// element, and leaves the result in out on root. out is for root alone. In place:
// out is in.
func Reduce[T any](ctx context.Context, c *Comm, in, out []T, op Op[T], root int, opts ...Option) error {
	return newReduce(c, in, out, op, root, opts).run(ctx)
}

// Allreduce is Reduce with the result on all ranks, the same to the bit.
func Allreduce[T any](ctx context.Context, c *Comm, in, out []T, op Op[T], opts ...Option) error {
	return newAllreduce(c, in, out, op, opts).run(ctx)
}

// ReduceScatter combines the slices of all ranks and gives each rank its part of
// the result: the first counts[0] elements to rank 0 and so on. nil counts are
// equal ones. All ranks bring the same counts. In place: out is the beginning of in,
// or the rank's part of it; the rest of in stays.
func ReduceScatter[T any](ctx context.Context, c *Comm, in, out []T, counts []int, op Op[T], opts ...Option) error {
	return newReduceScatter(c, in, out, counts, op, opts).run(ctx)
}

// Scan leaves in out what the slices of the ranks from 0 up to this one make,
// combined in the order of the ranks. In place: out is in.
func Scan[T any](ctx context.Context, c *Comm, in, out []T, op Op[T], opts ...Option) error {
	return newScan(c, kindScan, in, out, op, opts).run(ctx)
}

// Exscan is Scan without the rank's own slice. On rank 0 out stays as it is.
func Exscan[T any](ctx context.Context, c *Comm, in, out []T, op Op[T], opts ...Option) error {
	return newScan(c, kindExscan, in, out, op, opts).run(ctx)
}

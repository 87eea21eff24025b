package coll

import "context"

// Barrier returns when all ranks have called it.
func Barrier(ctx context.Context, c *Comm, opts ...Option) error {
	return newBarrier(c, opts).run(ctx)
}

// Bcast gives all ranks what is in buf on root. All bring the same length.
func Bcast[T any](ctx context.Context, c *Comm, buf []T, root int, opts ...Option) error {
	return newBcast(c, buf, root, opts).run(ctx)
}

// Gather collects on root the slices of all ranks, which have the same length, by
// rank one after the other. out is for root alone, and size times as long as in. In
// place: in is its part of out.
func Gather[T any](ctx context.Context, c *Comm, in, out []T, root int, opts ...Option) error {
	return newGather(c, in, out, root, opts).run(ctx)
}

// Gatherv is Gather of slices of different lengths. Root knows them: counts[r]
// elements come from rank r, and out is as long as all together.
func Gatherv[T any](ctx context.Context, c *Comm, in, out []T, counts []int, root int, opts ...Option) error {
	return newGatherv(c, in, out, counts, root, opts).run(ctx)
}

// Scatter gives each rank its part of in: the first as many elements as out is
// long to rank 0 and so on. in is for root alone, and size times as long as out. In
// place: out is its part of in.
func Scatter[T any](ctx context.Context, c *Comm, in, out []T, root int, opts ...Option) error {
	return newScatter(c, in, out, root, opts).run(ctx)
}

// Scatterv is Scatter of parts of different lengths. Root knows them: counts[r]
// elements go to rank r, and in is as long as all together.
func Scatterv[T any](ctx context.Context, c *Comm, in []T, counts []int, out []T, root int, opts ...Option) error {
	return newScatterv(c, in, counts, out, root, opts).run(ctx)
}

// Allgather gives all ranks the slices of all ranks, which have the same length,
// by rank one after the other: out is size times as long as in. In place: in is the
// rank's part of out.
func Allgather[T any](ctx context.Context, c *Comm, in, out []T, opts ...Option) error {
	return newAllgather(c, in, out, opts).run(ctx)
}

// Allgatherv is Allgather of slices of different lengths: counts[r] elements come
// from rank r. All ranks bring the same counts.
func Allgatherv[T any](ctx context.Context, c *Comm, in, out []T, counts []int, opts ...Option) error {
	return newAllgatherv(c, in, out, counts, opts).run(ctx)
}

// Alltoall sends the r-th of size equal parts of in to rank r, and receives the
// r-th part of out from rank r. In place: out is in.
func Alltoall[T any](ctx context.Context, c *Comm, in, out []T, opts ...Option) error {
	return newAlltoall(c, in, out, opts).run(ctx)
}

// Alltoallv is Alltoall with parts of different lengths: sends[r] elements go to
// rank r, and receives[r] come from it. In place: out is in, and receives equals
// sends.
func Alltoallv[T any](ctx context.Context, c *Comm, in []T, sends []int, out []T, receives []int, opts ...Option) error {
	return newAlltoallv(c, in, sends, out, receives, opts).run(ctx)
}

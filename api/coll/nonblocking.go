package coll

import "context"

// Ibarrier begins a Barrier, see [Request].
func Ibarrier(ctx context.Context, c *Comm, opts ...Option) (*Request, error) {
	return newBarrier(c, opts).start(ctx)
}

// Ibcast begins a [Bcast].
func Ibcast[T any](ctx context.Context, c *Comm, buf []T, root int, opts ...Option) (*Request, error) {
	return newBcast(c, buf, root, opts).start(ctx)
}

// Igather begins a [Gather].
func Igather[T any](ctx context.Context, c *Comm, in, out []T, root int, opts ...Option) (*Request, error) {
	return newGather(c, in, out, root, opts).start(ctx)
}

// Igatherv begins a [Gatherv].
func Igatherv[T any](ctx context.Context, c *Comm, in, out []T, counts []int, root int, opts ...Option) (*Request, error) {
	return newGatherv(c, in, out, counts, root, opts).start(ctx)
}

// Iscatter begins a [Scatter].
func Iscatter[T any](ctx context.Context, c *Comm, in, out []T, root int, opts ...Option) (*Request, error) {
	return newScatter(c, in, out, root, opts).start(ctx)
}

// Iscatterv begins a [Scatterv].
func Iscatterv[T any](ctx context.Context, c *Comm, in []T, counts []int, out []T, root int, opts ...Option) (*Request, error) {
	return newScatterv(c, in, counts, out, root, opts).start(ctx)
}

// Iallgather begins an [Allgather].
func Iallgather[T any](ctx context.Context, c *Comm, in, out []T, opts ...Option) (*Request, error) {
	return newAllgather(c, in, out, opts).start(ctx)
}

// Iallgatherv begins an [Allgatherv].
func Iallgatherv[T any](ctx context.Context, c *Comm, in, out []T, counts []int, opts ...Option) (*Request, error) {
	return newAllgatherv(c, in, out, counts, opts).start(ctx)
}

// Ialltoall begins an [Alltoall].
func Ialltoall[T any](ctx context.Context, c *Comm, in, out []T, opts ...Option) (*Request, error) {
	return newAlltoall(c, in, out, opts).start(ctx)
}

// Ialltoallv begins an [Alltoallv].
func Ialltoallv[T any](ctx context.Context, c *Comm, in []T, sends []int, out []T, receives []int, opts ...Option) (*Request, error) {
	return newAlltoallv(c, in, sends, out, receives, opts).start(ctx)
}

// Ireduce begins a [Reduce].
func Ireduce[T any](ctx context.Context, c *Comm, in, out []T, op Op[T], root int, opts ...Option) (*Request, error) {
	return newReduce(c, in, out, op, root, opts).start(ctx)
}

// Iallreduce begins an [Allreduce].
func Iallreduce[T any](ctx context.Context, c *Comm, in, out []T, op Op[T], opts ...Option) (*Request, error) {
	return newAllreduce(c, in, out, op, opts).start(ctx)
}

// IreduceScatter begins a [ReduceScatter].
func IreduceScatter[T any](ctx context.Context, c *Comm, in, out []T, counts []int, op Op[T], opts ...Option) (*Request, error) {
	return newReduceScatter(c, in, out, counts, op, opts).start(ctx)
}

// Iscan begins a [Scan].
func Iscan[T any](ctx context.Context, c *Comm, in, out []T, op Op[T], opts ...Option) (*Request, error) {
	return newScan(c, kindScan, in, out, op, opts).start(ctx)
}

// Iexscan begins an [Exscan].
func Iexscan[T any](ctx context.Context, c *Comm, in, out []T, op Op[T], opts ...Option) (*Request, error) {
	return newScan(c, kindExscan, in, out, op, opts).start(ctx)
}

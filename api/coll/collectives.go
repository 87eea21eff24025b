package coll

import (
	"context"

	"github.com/efactor/efactor/api/internal/errtext"
)

// Barrier returns when all ranks have called it.
func Barrier(ctx context.Context, c *Comm, opts ...Option) error {
	return c.newBarrier(opts).run(ctx)
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

// Ibarrier begins a Barrier, see [Request].
func Ibarrier(ctx context.Context, c *Comm, opts ...Option) (*Request, error) {
	return c.newBarrier(opts).start(ctx)
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

// Request is a collective in progress. The buffers are lent until it is over. Its
// place in the order of the group's collectives is that of the call that began it,
// so several may be in progress, and blocking ones meanwhile. Mistakes in arguments
// come back from that call; ctx is that of the whole collective.
type Request struct {
	over signal
	err  error
}

// Wait waits for the end of the collective and returns its error. The end of ctx
// ends the wait, not the collective; the error then is efa.ErrCanceled.
func (r *Request) Wait(ctx context.Context) error {
	if err := r.over.wait(ctx); err != nil {
		return &errtext.Error{Package: "coll", Op: "wait", Err: err}
	}
	return r.err
}

// Done is closed when the collective is over; Err then has its error.
func (r *Request) Done() <-chan struct{} { return r.over.done }

// Err is the error of a collective that is over.
func (r *Request) Err() error { return r.err }

// WaitAll waits for requests and returns the first error, in their order.
func WaitAll(ctx context.Context, rs ...*Request) error {
	var first error
	for _, r := range rs {
		if err := r.Wait(ctx); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// newCall returns a call of the collective. The one that the group had last is used again:
// with the same options, which are those of c if there are none, it knows them already.
func newCall[T any](c *Comm, k kind, opts []Option) *call {
	x := c.spare.Swap(nil)
	if x == nil || x.view != c || len(opts) > 0 {
		x = x.of(c, opts)
	}
	x.kind = k
	if _, same := x.elem.(*T); !same {
		n, err := sizeOf[T]()
		x.retype((*T)(nil), n, err)
	}
	return x
}

// The constructors of calls: they check arguments, so that a mistake is reported
// before anything is sent.

func (c *Comm) newBarrier(opts []Option) *call { return newCall[byte](c, kindBarrier, opts) }

func newBcast[T any](c *Comm, buf []T, root int, opts []Option) *call {
	x := newCall[T](c, kindBcast, opts)
	x.rooted(root)
	x.in, x.out = bytesOf(buf), bytesOf(buf)
	return x.sized(len(x.in))
}

func newGather[T any](c *Comm, in, out []T, root int, opts []Option) *call {
	x := newCall[T](c, kindGather, opts)
	x.in = bytesOf(in)
	x.lay.q = len(in)
	if x.rooted(root) {
		x.out = bytesOf(out)
		x.times("out", len(out), "in", len(in))
		x.apart(x.in, x.out, x.rank)
	}
	return x.sized(len(x.in))
}

func newGatherv[T any](c *Comm, in, out []T, counts []int, root int, opts []Option) *call {
	x := newCall[T](c, kindGatherv, opts)
	x.in = bytesOf(in)
	if x.rooted(root) {
		x.out = bytesOf(out)
		x.counted(&x.lay, counts, len(out))
		x.part("in", len(in), &x.lay)
		x.apart(x.in, x.out, x.rank)
	}
	return x
}

func newScatter[T any](c *Comm, in, out []T, root int, opts []Option) *call {
	x := newCall[T](c, kindScatter, opts)
	x.out = bytesOf(out)
	x.lay.q = len(out)
	if x.rooted(root) {
		x.in = bytesOf(in)
		x.times("in", len(in), "out", len(out))
		x.apart(x.out, x.in, x.rank)
	}
	return x.sized(len(x.out))
}

func newScatterv[T any](c *Comm, in []T, counts []int, out []T, root int, opts []Option) *call {
	x := newCall[T](c, kindScatterv, opts)
	x.out = bytesOf(out)
	if x.rooted(root) {
		x.in = bytesOf(in)
		x.counted(&x.lay, counts, len(in))
		x.part("out", len(out), &x.lay)
		x.apart(x.out, x.in, x.rank)
	}
	return x
}

func newAllgather[T any](c *Comm, in, out []T, opts []Option) *call {
	x := newCall[T](c, kindAllgather, opts)
	x.in, x.out = bytesOf(in), bytesOf(out)
	x.lay.q = len(in)
	x.times("out", len(out), "in", len(in))
	x.apart(x.in, x.out, x.rank)
	return x.sized(len(x.in))
}

func newAllgatherv[T any](c *Comm, in, out []T, counts []int, opts []Option) *call {
	x := newCall[T](c, kindAllgatherv, opts)
	x.in, x.out = bytesOf(in), bytesOf(out)
	x.counted(&x.lay, counts, len(out))
	x.part("in", len(in), &x.lay)
	x.apart(x.in, x.out, x.rank)
	return x.sized(len(x.out))
}

func newAlltoall[T any](c *Comm, in, out []T, opts []Option) *call {
	x := newCall[T](c, kindAlltoall, opts)
	x.in, x.out = bytesOf(in), bytesOf(out)
	x.lay.q = len(in) / len(c.peers)
	x.recvs.q, x.recvs.offs = x.lay.q, nil
	x.times("in", len(in), "a part", x.lay.q)
	x.as("out", len(out), "in", len(in))
	x.apart(x.in, x.out, -1)
	return x.sized(len(x.in))
}

func newAlltoallv[T any](c *Comm, in []T, sends []int, out []T, receives []int, opts []Option) *call {
	x := newCall[T](c, kindAlltoallv, opts)
	x.in, x.out = bytesOf(in), bytesOf(out)
	x.counted(&x.lay, sends, len(in))
	x.recvs.elem = x.lay.elem
	x.counted(&x.recvs, receives, len(out))
	if x.err == nil {
		x.as("the part for itself", x.lay.size(x.rank), "that from itself", x.recvs.size(x.rank))
	}
	x.apart(x.in, x.out, -1)
	if x.err == nil && same(x.in, x.out) {
		for r := range x.peers {
			x.as("in place a part received", receives[r], "that sent", sends[r])
		}
	}
	return x
}

func newReduce[T any](c *Comm, in, out []T, op Op[T], root int, opts []Option) *call {
	x := newCall[T](c, kindReduce, opts)
	x.combining(op, op != nil)
	x.in = bytesOf(in)
	if x.rooted(root) {
		x.out = bytesOf(out)
		x.as("out", len(out), "in", len(in))
		x.apart(x.in, x.out, -1)
	}
	x.lay.q = len(in)
	return x.sized(len(x.in))
}

func newAllreduce[T any](c *Comm, in, out []T, op Op[T], opts []Option) *call {
	return newScan(c, kindAllreduce, in, out, op, opts)
}

// newScan is for collectives with one buffer in and one of the same length out.
func newScan[T any](c *Comm, k kind, in, out []T, op Op[T], opts []Option) *call {
	x := newCall[T](c, k, opts)
	x.combining(op, op != nil)
	x.in, x.out = bytesOf(in), bytesOf(out)
	x.lay.q = len(in)
	x.as("out", len(out), "in", len(in))
	x.apart(x.in, x.out, -1)
	return x.sized(len(x.in))
}

func newReduceScatter[T any](c *Comm, in, out []T, counts []int, op Op[T], opts []Option) *call {
	x := newCall[T](c, kindReduceScatter, opts)
	x.combining(op, op != nil)
	x.in, x.out = bytesOf(in), bytesOf(out)
	if counts == nil {
		x.lay.q = len(out)
		x.times("in", len(in), "out", len(out))
	} else {
		x.counted(&x.lay, counts, len(in))
		x.part("out", len(out), &x.lay)
	}
	if x.err == nil && !same(x.out, x.in[:len(x.out)]) {
		x.apart(x.out, x.in, x.rank)
	}
	return x.sized(len(x.in))
}

package coll

import (
	"fmt"

	"github.com/efactor/efactor/api/efa"
)

// The constructors of calls: they check arguments, so that a mistake is reported
// before anything is sent.

func newBarrier(c *Comm, opts []Option) *call {
	x := newCall(c, kindBarrier, opts)
	typed[byte](x)
	return x
}

func newBcast[T any](c *Comm, buf []T, root int, opts []Option) *call {
	x := newCall(c, kindBcast, opts)
	typed[T](x)
	x.rooted(root)
	x.in, x.out = bytesOf(buf), bytesOf(buf)
	return x.sized(len(x.in))
}

func newGather[T any](c *Comm, in, out []T, root int, opts []Option) *call {
	x := newCall(c, kindGather, opts)
	typed[T](x)
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
	x := newCall(c, kindGatherv, opts)
	typed[T](x)
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
	x := newCall(c, kindScatter, opts)
	typed[T](x)
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
	x := newCall(c, kindScatterv, opts)
	typed[T](x)
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
	x := newCall(c, kindAllgather, opts)
	typed[T](x)
	x.in, x.out = bytesOf(in), bytesOf(out)
	x.lay.q = len(in)
	x.times("out", len(out), "in", len(in))
	x.apart(x.in, x.out, x.rank)
	return x.sized(len(x.in))
}

func newAllgatherv[T any](c *Comm, in, out []T, counts []int, opts []Option) *call {
	x := newCall(c, kindAllgatherv, opts)
	typed[T](x)
	x.in, x.out = bytesOf(in), bytesOf(out)
	x.counted(&x.lay, counts, len(out))
	x.part("in", len(in), &x.lay)
	x.apart(x.in, x.out, x.rank)
	return x.sized(len(x.out))
}

func newAlltoall[T any](c *Comm, in, out []T, opts []Option) *call {
	x := newCall(c, kindAlltoall, opts)
	typed[T](x)
	x.in, x.out = bytesOf(in), bytesOf(out)
	x.lay.q = len(in) / len(c.peers)
	x.recvs.q, x.recvs.offs = x.lay.q, nil
	x.times("in", len(in), "a part", x.lay.q)
	x.as("out", len(out), "in", len(in))
	x.apart(x.in, x.out, -1)
	return x.sized(len(x.in))
}

func newAlltoallv[T any](c *Comm, in []T, sends []int, out []T, receives []int, opts []Option) *call {
	x := newCall(c, kindAlltoallv, opts)
	typed[T](x)
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
	x := newCall(c, kindReduce, opts)
	typed[T](x)
	combining(x, op)
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
	x := newCall(c, k, opts)
	typed[T](x)
	combining(x, op)
	x.in, x.out = bytesOf(in), bytesOf(out)
	x.lay.q = len(in)
	x.as("out", len(out), "in", len(in))
	x.apart(x.in, x.out, -1)
	return x.sized(len(x.in))
}

func newReduceScatter[T any](c *Comm, in, out []T, counts []int, op Op[T], opts []Option) *call {
	x := newCall(c, kindReduceScatter, opts)
	typed[T](x)
	combining(x, op)
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

// typed sets the element type.
func typed[T any](x *call) {
	if _, same := x.elem.(*T); !same {
		retype[T](x)
	}
}

func retype[T any](x *call) {
	n, err := sizeOf[T]()
	if x.elem = (*T)(nil); err != nil {
		x.refuse(err)
		x.elem, n = nil, 1
	}
	x.lay.elem, x.recvs.elem = n, n
}

var errNoOperator = fmt.Errorf("%w: no operator", efa.ErrInvalid)

func combining[T any](x *call, op Op[T]) {
	if op == nil {
		x.refuse(errNoOperator)
	}
	x.op = op
}

// refuse keeps the first mistake.
func (x *call) refuse(err error) {
	if x.err == nil {
		x.err = err
	}
}

// sized sets the number of bytes by which choose decides.
func (x *call) sized(n int) *call {
	x.bytes = n
	return x
}

// rooted checks the root and reports whether this rank is it.
func (x *call) rooted(root int) bool {
	if root < 0 || root >= len(x.peers) {
		x.refuse(fmt.Errorf("%w: root %d of %d ranks", efa.ErrInvalid, root, len(x.peers)))
	}
	x.root = root
	return root == x.rank
}

func (x *call) counted(l *layout, counts []int, n int) {
	if err := l.setCounts(counts, len(x.peers), n); err != nil {
		x.refuse(err)
	}
}

// part checks that a buffer is as long as the layout has it for this rank.
func (x *call) part(name string, n int, l *layout) {
	if x.err == nil && n*l.elem != l.size(x.rank) {
		x.refuse(fmt.Errorf("%w: %s has %d elements, counts say %d", efa.ErrInvalid, name, n, l.size(x.rank)/l.elem))
	}
}

// times checks that a buffer is size times as long as another.
func (x *call) times(long string, n int, short string, m int) {
	if p := len(x.peers); n%p != 0 || n/p != m {
		x.refuse(fmt.Errorf("%w: %s has %d elements, which is not %d for each of %d ranks as %s has it", efa.ErrInvalid, long, n, m, p, short))
	}
}

func (x *call) as(name string, n int, other string, m int) {
	if n != m {
		x.unlike(name, n, other, m)
	}
}

func (x *call) unlike(name string, n int, other string, m int) {
	x.refuse(fmt.Errorf("%w: %s has %d elements, %s %d", efa.ErrInvalid, name, n, other, m))
}

// apart checks that two buffers are the same, have nothing in common, or that
// one is its part of the other, if there is a rank to have one.
func (x *call) apart(part, whole []byte, rank int) {
	if overlap(part, whole) {
		x.within(part, whole, rank)
	}
}

func (x *call) within(part, whole []byte, rank int) {
	if x.err != nil {
		return
	}
	if rank >= 0 {
		whole = x.lay.block(whole, rank)
	}
	if !same(part, whole) {
		x.refuse(fmt.Errorf("%w: in and out overlap", efa.ErrInvalid))
	}
}

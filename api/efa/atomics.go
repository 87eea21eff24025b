package efa

import (
	"context"

	"github.com/efactor/efactor/actors/ope"
)

// Update performs op with each of the operands on the elements of type T that at
// begins with, in memory of the peer to that has AccessRemoteWrite. It returns when
// the operands may be used again. Atomics and messages to one peer are carried out
// in the order of the calls.
//
// With the level Transmitted it has only reached the peer's device then, and a
// refusal is seen by the peer alone; complete with Delivered to know, see
// [Endpoint.Write].
//
// The operands must fit a packet, see [Domain.QueryAtomic]; more is ErrMsgSize. An
// operation that there is not on T is ErrNotSupported. Elements may lie at any
// address; those of 32 and 64 bits at multiples of their size are atomic against
// sync/atomic there, too.
func Update[T Scalar](ctx context.Context, e *Endpoint, to Addr, at Remote, op AtomicOp, operands []T, opts ...OpOption) error {
	r := AtomicReq{To: to, At: at, Op: op}
	r.Operand, r.Type = Elements(operands)
	return e.atomic(ctx, &r, opts)
}

// Fetch is Update, and gives what was in memory before in results, of which there
// are as many as operands; AtomicRead takes no operands. The memory must have
// AccessRemoteRead, as libfabric has it, whether or not it is changed. A refusal is
// reported whatever the level.
func Fetch[T Scalar](ctx context.Context, e *Endpoint, to Addr, at Remote, op AtomicOp, operands, results []T, opts ...OpOption) error {
	r := AtomicReq{To: to, At: at, Op: op, Form: FetchForm}
	r.Operand, r.Type = Elements(operands)
	r.Result, _ = Elements(results)
	return e.atomic(ctx, &r, opts)
}

// Compare is Fetch for the operations that compare: each element is compared, or
// masked, with one of compares.
func Compare[T Scalar](ctx context.Context, e *Endpoint, to Addr, at Remote, op AtomicOp, operands, compares, results []T, opts ...OpOption) error {
	r := AtomicReq{To: to, At: at, Op: op, Form: CompareForm}
	r.Operand, r.Type = Elements(operands)
	r.Compare, _ = Elements(compares)
	r.Result, _ = Elements(results)
	return e.atomic(ctx, &r, opts)
}

func (e *Endpoint) atomic(ctx context.Context, r *AtomicReq, opts []OpOption) error {
	s := e.def
	s.apply(opts)
	if err := s.check(); err != nil {
		return err
	}
	var req ope.Request
	if err := e.atomicRequest(&req, r, &s); err != nil {
		return err
	}
	return e.run(ctx, &req)
}

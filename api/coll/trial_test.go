package coll_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/efactor/efactor/api/coll"
)

// begin begins the collective of a trial, or does it if it is to block.
func begin[T comparable](ctx context.Context, c *coll.Comm, f flavor[T], tr trial, block bool) (*pending, error) {
	e := &exam[T]{trial: tr, flavor: f, c: c}
	e.op %= len(f.ops)
	op := f.ops[e.op]
	if op.ordered && tr.kind != "scan" && tr.kind != "exscan" { // these have no other order
		e.opts = append(slices.Clone(e.opts), coll.NonCommutative)
	}
	rank, size, isRoot := c.Rank(), c.Size(), c.Rank() == tr.root
	mine := e.part(rank, 0, e.count(rank))
	var r *coll.Request
	var err error
	var p *pending
	switch tr.kind {
	case "barrier":
		p = equals(e, nil, nil)
		if block {
			return p, coll.Barrier(ctx, c, e.opts...)
		}
		r, err = coll.Ibarrier(ctx, c, e.opts...)
	case "bcast":
		buf := e.buffer(e.n, nil)
		if isRoot {
			copy(buf, e.part(tr.root, 0, e.n))
		}
		p = equals(e, buf, e.part(tr.root, 0, e.n))
		if block {
			return p, coll.Bcast(ctx, c, buf, tr.root, e.opts...)
		}
		r, err = coll.Ibcast(ctx, c, buf, tr.root, e.opts...)
	case "gather", "gatherv":
		in, out, want := e.buffer(len(mine), mine), []T(nil), []T(nil)
		if isRoot {
			want = e.all()
			out = e.buffer(len(want), nil)
			if tr.inPlace {
				in = out[e.offset(rank):e.offset(rank+1)]
				copy(in, mine)
			}
		}
		p = equals(e, out, want)
		switch {
		case tr.kind == "gather" && block:
			return p, coll.Gather(ctx, c, in, out, tr.root, e.opts...)
		case tr.kind == "gather":
			r, err = coll.Igather(ctx, c, in, out, tr.root, e.opts...)
		case block:
			return p, coll.Gatherv(ctx, c, in, out, e.counts, tr.root, e.opts...)
		default:
			r, err = coll.Igatherv(ctx, c, in, out, e.counts, tr.root, e.opts...)
		}
	case "scatter", "scatterv":
		// Root brings one long buffer, as if it were part of its own.
		whole := e.part(tr.root, 0, e.offset(size))
		want := whole[e.offset(rank):e.offset(rank+1)]
		out, in := e.buffer(len(want), nil), []T(nil)
		if isRoot {
			in = e.buffer(len(whole), whole)
			if tr.inPlace {
				out = in[e.offset(rank):e.offset(rank+1)]
			}
		}
		p = equals(e, out, want)
		switch {
		case tr.kind == "scatter" && block:
			return p, coll.Scatter(ctx, c, in, out, tr.root, e.opts...)
		case tr.kind == "scatter":
			r, err = coll.Iscatter(ctx, c, in, out, tr.root, e.opts...)
		case block:
			return p, coll.Scatterv(ctx, c, in, e.counts, out, tr.root, e.opts...)
		default:
			r, err = coll.Iscatterv(ctx, c, in, e.counts, out, tr.root, e.opts...)
		}
	case "allgather", "allgatherv":
		want := e.all()
		in, out := e.buffer(len(mine), mine), e.buffer(len(want), nil)
		if tr.inPlace {
			in = out[e.offset(rank):e.offset(rank+1)]
			copy(in, mine)
		}
		p = equals(e, out, want)
		switch {
		case tr.kind == "allgather" && block:
			return p, coll.Allgather(ctx, c, in, out, e.opts...)
		case tr.kind == "allgather":
			r, err = coll.Iallgather(ctx, c, in, out, e.opts...)
		case block:
			return p, coll.Allgatherv(ctx, c, in, out, e.counts, e.opts...)
		default:
			r, err = coll.Iallgatherv(ctx, c, in, out, e.counts, e.opts...)
		}
	case "alltoall", "alltoallv":
		return e.alltoall(ctx, block)
	default:
		return e.reduction(ctx, block)
	}
	if err == nil {
		p.req = r
	}
	return p, err
}

// lane is how many elements rank a sends to rank b: in place the same both ways.
func (e *exam[T]) lane(a, b int) int {
	switch {
	case e.counts == nil:
		return e.n
	case e.inPlace:
		return (e.counts[a] + e.counts[b]) / 2
	default:
		return (3*e.counts[a] + e.counts[b]) / 4
	}
}

func (e *exam[T]) alltoall(ctx context.Context, block bool) (*pending, error) {
	var have, want []T
	var sends, receives []int
	for r := range e.c.Size() {
		give, get := e.lane(e.c.Rank(), r), e.lane(r, e.c.Rank())
		sends, receives = append(sends, give), append(receives, get)
		have = append(have, e.part(e.c.Rank()+1000*r, 0, give)...)
		want = append(want, e.part(r+1000*e.c.Rank(), 0, get)...)
	}
	in := e.buffer(len(have), have)
	out := in
	if !e.inPlace {
		out = e.buffer(len(want), nil)
	}
	p := equals(e, out, want)
	var err error
	switch {
	case e.kind == "alltoall" && block:
		return p, coll.Alltoall(ctx, e.c, in, out, e.opts...)
	case e.kind == "alltoall":
		p.req, err = coll.Ialltoall(ctx, e.c, in, out, e.opts...)
	case block:
		return p, coll.Alltoallv(ctx, e.c, in, sends, out, receives, e.opts...)
	default:
		p.req, err = coll.Ialltoallv(ctx, e.c, in, sends, out, receives, e.opts...)
	}
	return p, err
}

func (e *exam[T]) reduction(ctx context.Context, block bool) (p *pending, err error) {
	c, op := e.c, e.ops[e.op].op
	rank, size := c.Rank(), c.Size()
	total := e.n
	if e.kind == "reducescatter" {
		total = e.offset(size)
	}
	in := e.buffer(total, e.part(rank, 0, total))
	out := in
	if !e.inPlace {
		out = e.buffer(total, nil)
	}
	want := e.fold(size, 0, total)
	switch e.kind {
	case "reduce":
		if p = equals(e, out, want); rank != e.root {
			out, p = nil, equals(e, in, e.part(rank, 0, total))
		}
		if block {
			return p, coll.Reduce(ctx, c, in, out, op, e.root, e.opts...)
		}
		p.req, err = coll.Ireduce(ctx, c, in, out, op, e.root, e.opts...)
	case "allreduce":
		p = equals(e, out, want)
		if block {
			return p, coll.Allreduce(ctx, c, in, out, op, e.opts...)
		}
		p.req, err = coll.Iallreduce(ctx, c, in, out, op, e.opts...)
	case "reducescatter":
		out = out[:e.count(rank)]
		if e.inPlace && e.seed%2 == 0 {
			out = in[e.offset(rank):e.offset(rank+1)]
		}
		p = equals(e, out, want[e.offset(rank):e.offset(rank+1)])
		if block {
			return p, coll.ReduceScatter(ctx, c, in, out, e.counts, op, e.opts...)
		}
		p.req, err = coll.IreduceScatter(ctx, c, in, out, e.counts, op, e.opts...)
	case "scan":
		p = equals(e, out, e.fold(rank+1, 0, total))
		if block {
			return p, coll.Scan(ctx, c, in, out, op, e.opts...)
		}
		p.req, err = coll.Iscan(ctx, c, in, out, op, e.opts...)
	case "exscan":
		want = slices.Clone(out) // of rank 0
		if rank > 0 {
			want = e.fold(rank, 0, total)
		}
		p = equals(e, out, want)
		if block {
			return p, coll.Exscan(ctx, c, in, out, op, e.opts...)
		}
		p.req, err = coll.Iexscan(ctx, c, in, out, op, e.opts...)
	default:
		return nil, fmt.Errorf("no collective %q", e.kind)
	}
	return p, err
}

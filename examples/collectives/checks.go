package main

import (
	"context"
	"slices"

	"github.com/efactor/efactor/api/coll"
)

// check does a collective with n elements as a part, and reports whether its result is
// that of the serial reference beside it.
type check func(ctx context.Context, c *coll.Comm, n int) (bool, error)

var checks = []struct {
	name  string
	check check
}{
	{"barrier", func(ctx context.Context, c *coll.Comm, _ int) (bool, error) {
		return true, coll.Barrier(ctx, c)
	}},
	{"bcast", func(ctx context.Context, c *coll.Comm, n int) (bool, error) {
		root := c.Size() - 1
		buf := from(c.Rank(), 0, n)
		err := coll.Bcast(ctx, c, buf, root)
		return slices.Equal(buf, from(root, 0, n)), err
	}},
	{"gather", func(ctx context.Context, c *coll.Comm, n int) (bool, error) {
		out, want := atRoot(c, all(c.Size(), 0, n))
		err := coll.Gather(ctx, c, from(c.Rank(), 0, n), out, 0)
		return slices.Equal(out, want), err
	}},
	{"gatherv", func(ctx context.Context, c *coll.Comm, n int) (bool, error) {
		out, want := atRoot(c, uneven(c, n))
		err := coll.Gatherv(ctx, c, from(c.Rank(), 0, counts(c, n)[c.Rank()]), out, counts(c, n), 0)
		return slices.Equal(out, want), err
	}},
	{"scatter", func(ctx context.Context, c *coll.Comm, n int) (bool, error) {
		out := make([]int64, n)
		err := coll.Scatter(ctx, c, from(0, 0, n*c.Size()), out, 0)
		return slices.Equal(out, from(0, n*c.Rank(), n)), err
	}},
	{"scatterv", func(ctx context.Context, c *coll.Comm, n int) (bool, error) {
		out := make([]int64, counts(c, n)[c.Rank()])
		err := coll.Scatterv(ctx, c, uneven(c, n), counts(c, n), out, 0)
		return slices.Equal(out, from(c.Rank(), 0, len(out))), err
	}},
	{"allgather", func(ctx context.Context, c *coll.Comm, n int) (bool, error) {
		out := make([]int64, n*c.Size())
		err := coll.Allgather(ctx, c, from(c.Rank(), 0, n), out)
		return slices.Equal(out, all(c.Size(), 0, n)), err
	}},
	{"allgatherv", func(ctx context.Context, c *coll.Comm, n int) (bool, error) {
		want := uneven(c, n)
		out := make([]int64, len(want))
		err := coll.Allgatherv(ctx, c, from(c.Rank(), 0, counts(c, n)[c.Rank()]), out, counts(c, n))
		return slices.Equal(out, want), err
	}},
	{"alltoall", func(ctx context.Context, c *coll.Comm, n int) (bool, error) {
		buf := from(c.Rank(), 0, n*c.Size())
		err := coll.Alltoall(ctx, c, buf, buf)
		return slices.Equal(buf, all(c.Size(), n*c.Rank(), n)), err
	}},
	{"alltoallv", func(ctx context.Context, c *coll.Comm, n int) (bool, error) {
		// Rank r has as many for each as counts says of r.
		p, mine := c.Size(), counts(c, n)[c.Rank()]
		in, out := from(c.Rank(), 0, mine*p), make([]int64, len(uneven(c, n)))
		sends := slices.Repeat([]int{mine}, p)
		err := coll.Alltoallv(ctx, c, in, sends, out, counts(c, n))
		var want []int64
		for r, k := range counts(c, n) {
			want = append(want, from(r, k*c.Rank(), k)...)
		}
		return slices.Equal(out, want), err
	}},
	{"reduce", func(ctx context.Context, c *coll.Comm, n int) (bool, error) {
		out, want := atRoot(c, sum(c.Size(), 0, n))
		err := coll.Reduce(ctx, c, from(c.Rank(), 0, n), out, coll.Sum, 0)
		return slices.Equal(out, want), err
	}},
	{"allreduce", func(ctx context.Context, c *coll.Comm, n int) (bool, error) {
		buf := from(c.Rank(), 0, n)
		err := coll.Allreduce(ctx, c, buf, buf, coll.Sum)
		return slices.Equal(buf, sum(c.Size(), 0, n)), err
	}},
	{"reducescatter", func(ctx context.Context, c *coll.Comm, n int) (bool, error) {
		out := make([]int64, n)
		err := coll.ReduceScatter(ctx, c, from(c.Rank(), 0, n*c.Size()), out, nil, coll.Sum)
		return slices.Equal(out, sum(c.Size(), n*c.Rank(), n)), err
	}},
	{"scan", func(ctx context.Context, c *coll.Comm, n int) (bool, error) {
		out := make([]int64, n)
		err := coll.Scan(ctx, c, from(c.Rank(), 0, n), out, coll.Sum)
		return slices.Equal(out, sum(c.Rank()+1, 0, n)), err
	}},
	{"exscan", func(ctx context.Context, c *coll.Comm, n int) (bool, error) {
		out := make([]int64, n)
		err := coll.Exscan(ctx, c, from(c.Rank(), 0, n), out, coll.Sum)
		return slices.Equal(out, sum(c.Rank(), 0, n)), err
	}},
}

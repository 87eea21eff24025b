// Kmeans finds clusters of points that are spread over ranks, by the collectives of the
// package coll: points are scattered, centres broadcast, sums all-reduced in each step, and
// the clusters of the points gathered.
//
//	go run ./examples/kmeans                             4 processes of its own
//	go run ./examples/kmeans -ranks 7 -points 1000000
//	mpiexec -n 4 ./kmeans                                or srun, torchrun, ...
//
// Rank 0 compares the result with that of a serial computation, which it must equal to the
// last digit.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"

	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/api/launch"
	"github.com/efactor/efactor/api/launch/local"
	"github.com/efactor/efactor/examples/kmeans/lloyd"
)

func main() {
	ranks := flag.Int("ranks", 4, "processes to start if nobody else has started some")
	points := flag.Int("points", 20000, "how many points there are")
	clusters := flag.Int("clusters", 5, "into how many clusters they go")
	flag.Parse()
	local.Run(*ranks, func(ctx context.Context, g *launch.Group) error { return run(ctx, g, *points, *clusters) })
}

func run(ctx context.Context, g *launch.Group, points, clusters int) error {
	if clusters < 1 || points < clusters {
		return fmt.Errorf("%d points in %d clusters", points, clusters)
	}
	c, err := coll.New(coll.Config{Endpoint: g.Endpoint, Rank: g.Rank, Peers: g.Peers})
	if err != nil {
		return err
	}
	r := &result{centres: make([]lloyd.Point, clusters)}
	var all []lloyd.Point // on rank 0
	if c.Rank() == 0 {
		all = lloyd.Generate(points, clusters, 1)
		copy(r.centres, all)
	}
	if err := r.find(ctx, c, all, points); err != nil {
		return err
	}
	if c.Rank() == 0 {
		if err := r.compare(all); err != nil {
			return err
		}
		r.print(c.Size())
	}
	return c.Close(ctx)
}

// result is the result of the program.
type result struct {
	centres []lloyd.Point
	of      []int32 // the cluster of each point, on rank 0
	steps   int
}

// find has all ranks find the clusters. Rank 0 has the points and where centres begin.
func (r *result) find(ctx context.Context, c *coll.Comm, all []lloyd.Point, points int) error {
	counts := make([]int, c.Size()) // of points, by rank
	for rank := range counts {
		counts[rank] = (rank+1)*points/c.Size() - rank*points/c.Size()
	}
	mine := make([]lloyd.Point, counts[c.Rank()])
	if err := coll.Scatterv(ctx, c, all, counts, mine, 0); err != nil {
		return err
	}
	if err := coll.Bcast(ctx, c, r.centres, 0); err != nil {
		return err
	}
	total := make([]lloyd.Sums, len(r.centres))
	of, steps, err := lloyd.Run(mine, r.centres, func(part []lloyd.Sums) ([]lloyd.Sums, error) {
		return total, coll.Allreduce(ctx, c, part, total, lloyd.Add)
	})
	if err != nil {
		return err
	}
	if r.steps = steps; c.Rank() == 0 {
		r.of = make([]int32, points)
	}
	return coll.Gatherv(ctx, c, of, r.of, counts, 0)
}

// compare does the same in one process.
func (r *result) compare(all []lloyd.Point) error {
	centres := slices.Clone(all[:len(r.centres)])
	of, steps, err := lloyd.Run(all, centres, func(sums []lloyd.Sums) ([]lloyd.Sums, error) { return sums, nil })
	if err != nil {
		return err
	}
	if steps != r.steps || !slices.Equal(of, r.of) || !slices.Equal(centres, r.centres) {
		return errors.New("the serial result is another one")
	}
	return nil
}

func (r *result) print(ranks int) {
	sizes := make([]int, len(r.centres))
	for _, k := range r.of {
		sizes[k]++
	}
	fmt.Printf("%d ranks, %d points: after %d steps none changes its cluster\n", ranks, len(r.of), r.steps)
	for k, p := range r.centres {
		fmt.Printf("%6d points around (%d, %d)\n", sizes[k], p.X, p.Y)
	}
	fmt.Println("the serial result is the same")
}

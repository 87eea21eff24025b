// Train fits a line to points that are spread over ranks: each has the gradient of its own, and
// Allreduce adds them up in every step.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/api/launch"
	"github.com/efactor/efactor/api/launch/local"
)

var traced = flag.Bool("trace", false, "print the spans of the last step, of rank 0")

func main() {
	flag.Parse()
	local.Run(4, train)
}

const (
	points = 1000 // of each rank
	steps  = 200
	rate   = 0.5
)

func train(ctx context.Context, g *launch.Group) error {
	spans := &lastSpans{}
	cfg := coll.Config{Endpoint: g.Endpoint, Rank: g.Rank, Peers: g.Peers}
	if *traced && g.Rank == 0 {
		cfg.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("train")
	}
	c, err := coll.New(cfg)
	if err != nil {
		return err
	}
	xs, ys := data(uint64(g.Rank))
	var a, b float64 // y = a*x + b
	for step := range steps {
		if step == steps-1 {
			spans.clear()
		}
		sum := gradient(a, b, xs, ys)
		if err := coll.Allreduce(ctx, c, sum, sum, coll.Sum); err != nil {
			return err
		}
		n := float64(points * g.Size)
		a -= rate * sum[0] / n
		b -= rate * sum[1] / n
	}
	if g.Rank == 0 {
		fmt.Printf("y = %.2f x + %.2f\n", a, b)
		spans.print()
	}
	return c.Close(ctx)
}

// data are points near y = 3x + 1.
func data(rank uint64) (xs, ys []float64) {
	r := rand.New(rand.NewPCG(1, rank))
	for range points {
		x := 2*r.Float64() - 1
		xs, ys = append(xs, x), append(ys, 3*x+1+0.1*r.NormFloat64())
	}
	return xs, ys
}

// gradient is that of the squared error, summed over the points.
func gradient(a, b float64, xs, ys []float64) []float64 {
	sum := make([]float64, 2)
	for i, x := range xs {
		e := a*x + b - ys[i]
		sum[0] += e * x
		sum[1] += e
	}
	return sum
}

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/launch"
	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/runtime/clock"
)

// bench is a rank at work.
type bench struct {
	*options
	comm *coll.Comm
	out  io.Writer // of rank 0, for the table; nil if it has none to write
}

// rank runs the measurement in each process of the job; rank 0 writes the results.
func (o *options) rank(ctx context.Context, w io.Writer) (err error) {
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg := launch.Config{
		Logger: quiet, // its message is in the environment
		Fabric: efa.Config{DeviceName: o.device, Logger: quiet},
		Domain: efa.DomainConfig{Progress: o.mode},
	}
	g, err := cfg.Init(ctx)
	if err != nil {
		return err
	}
	defer g.Close()
	comm, err := coll.New(coll.Config{Endpoint: g.Endpoint, Rank: g.Rank, Peers: g.Peers})
	if err != nil {
		return err
	}
	if o.profile != "" {
		stop, err := versus.Profile(fmt.Sprintf("%s.%d", o.profile, g.Rank))
		if err != nil {
			return err
		}
		defer stop()
	}
	b := &bench{options: o, comm: comm}
	env := environment{Machine: versus.Here()}
	env.Ranks, env.Device, env.Launcher = g.Size, g.Fabric.Name(), g.Launcher
	env.Progress = fmt.Sprintf("%v (%s)", g.Domain.Progress(), g.Domain.ProgressReason())
	if g.Rank == 0 && !o.json {
		b.out = w
		fmt.Fprintln(w, env)
	}
	results, err := b.all(ctx)
	if err == nil && g.Rank == 0 {
		if o.json {
			err = (&report{env, results}).write(w)
		}
		if o.png != "" && err == nil {
			err = writePlot(o.png, results, env)
		}
	}
	if err != nil {
		return err
	}
	return comm.Close(ctx)
}

// all measures everything that was asked for. Every rank has all results.
func (b *bench) all(ctx context.Context) (results []*result, err error) {
	for _, op := range b.ops {
		for _, kind := range b.buffers {
			if b.out != nil {
				writeHead(b.out, op.name, kind)
			}
			sizes := versus.Sweep(int(b.first), int(b.last), b.factor)
			if op.name == "barrier" {
				sizes = []int{0}
			}
			for _, size := range sizes {
				r, err := b.line(ctx, op, kind, size)
				if err != nil {
					return nil, fmt.Errorf("%s of %d B: %w", op.name, size, err)
				}
				if results = append(results, r); b.out != nil {
					writeLine(b.out, r)
				}
			}
		}
	}
	return results, nil
}

// line measures an operation at one size.
func (b *bench) line(ctx context.Context, op operation, kind string, size int) (r *result, err error) {
	var free []func() error
	defer func() {
		for _, f := range free {
			if e := f(); err == nil {
				err = e
			}
		}
	}()
	var k *call
	switch b.elem {
	case "float64":
		k, err = newCall(b.comm, op, size, 8, b.redop, memory[float64](b.comm, kind, &free), b.opts())
	case "int32":
		k, err = newCall(b.comm, op, size, 4, b.redop, memory[int32](b.comm, kind, &free), b.opts())
	case "int64":
		k, err = newCall(b.comm, op, size, 8, b.redop, memory[int64](b.comm, kind, &free), b.opts())
	case "uint8":
		k, err = newCall(b.comm, op, size, 1, b.redop, memory[uint8](b.comm, kind, &free), b.opts())
	default:
		k, err = newCall(b.comm, op, size, 4, b.redop, memory[float32](b.comm, kind, &free), b.opts())
	}
	if err != nil {
		return nil, err
	}
	r = &result{Op: op.name, Ranks: b.comm.Size(), Size: k.size, Count: k.count, Type: b.elem, Redop: "none", Algorithm: k.algorithm, Buffers: kind}
	if op.reduces {
		r.Redop = b.redop
	}
	_, one, err := b.time(ctx, k, op.apart, 1, 5)
	if err != nil {
		return nil, err
	}
	warmup, iters := b.iterations(one) // on all ranks the same, as one is
	calls, slowest, err := b.time(ctx, k, op.apart, warmup, iters)
	if err != nil {
		return nil, err
	}
	r.summary(calls, slowest, op.factor(b.comm.Size()))
	if b.check {
		wrong, err := b.verify(ctx, k)
		if err != nil {
			return nil, err
		}
		r.Wrong = &wrong
	}
	// Ranks keep memory that others may still read.
	return r, coll.Barrier(ctx, b.comm)
}

func (b *bench) opts() []coll.Option {
	if b.alg == "" {
		return nil
	}
	return []coll.Option{coll.Use(b.alg)}
}

// time returns how long each call took on this rank, and the average of the slowest.
func (b *bench) time(ctx context.Context, k *call, apart bool, warmup, iters int) ([]time.Duration, time.Duration, error) {
	calls := make([]time.Duration, iters)
	for i := range calls {
		calls[i] = -1 // so that the kernel gives the memory now
	}
	for range warmup {
		if err := k.do(ctx); err != nil {
			return nil, 0, err
		}
	}
	if err := coll.Barrier(ctx, b.comm); err != nil {
		return nil, 0, err
	}
	total := time.Duration(0)
	before := clock.System.Now()
	for i := range calls {
		if apart && i > 0 {
			if err := coll.Barrier(ctx, b.comm); err != nil {
				return nil, 0, err
			}
			before = clock.System.Now()
		}
		if err := k.do(ctx); err != nil {
			return nil, 0, err
		}
		now := clock.System.Now()
		calls[i] = now.Sub(before)
		total += calls[i]
		before = now
	}
	slowest := []int64{0}
	if err := coll.Allreduce(ctx, b.comm, []int64{int64(total)}, slowest, coll.Max[int64]); err != nil {
		return nil, 0, err
	}
	return calls, time.Duration(slowest[0] / int64(iters)), nil
}

// verify does one more call and counts the wrong elements on all ranks.
func (b *bench) verify(ctx context.Context, k *call) (int64, error) {
	k.reset()
	if err := k.do(ctx); err != nil {
		return 0, err
	}
	sum := []int64{0}
	err := coll.Allreduce(ctx, b.comm, []int64{k.wrong()}, sum, coll.Sum[int64])
	return sum[0], err
}

// memory returns buffers of the kind, and adds to free what gives them back.
func memory[T coll.Ordered](c *coll.Comm, kind string, free *[]func() error) func(int) ([]T, error) {
	return func(n int) ([]T, error) {
		if kind == "slice" {
			return make([]T, n), nil
		}
		s, err := coll.Alloc[T](c, n)
		if err == nil {
			*free = append(*free, func() error { return coll.Free(c, s) })
		}
		return s, err
	}
}

package job

import (
	"context"
	"errors"
	"runtime"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

// operations are such that every subprotocol has one on some device; testdata/costs.txt of
// package efa says which goes how.
func operations() (list []operation) {
	for _, size := range []int{8, 16 << 10, 100 << 10, largest} {
		for _, alloc := range []bool{false, true} {
			list = append(list,
				operation{"send", size, alloc, efa.Transmitted}, operation{"send", size, alloc, efa.Delivered},
				operation{"write", size, alloc, efa.Transmitted}, operation{"write", size, alloc, efa.Delivered},
				operation{op: "read", size: size, alloc: alloc})
		}
	}
	return list
}

// allocations counts those of both sides for an operation in steady state, by the
// subprotocol that carried it.
func (j *Job) allocations(ctx context.Context) (res *Result, err error) {
	a, err := openAlone(ctx, j.Device)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.end()) }()
	res = &Result{Allocs: map[string]float64{}}
	for _, o := range operations() {
		fewest, err := a.count(ctx, o)
		if err != nil {
			return nil, err
		}
		name := a.protocol.String()
		res.Allocs[name] = max(res.Allocs[name], fewest)
	}
	return res, nil
}

// count is the fewest allocations in several runs, as Go's runtime makes some of its own at
// times, and those that fill a pool are no steady state.
func (a *alone) count(ctx context.Context, o operation) (fewest float64, err error) {
	const tries = 5
	n := 64
	if o.size == largest {
		n = 16
	}
	for i := range tries {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			if err := a.once(ctx, o); err != nil {
				return 0, err
			}
		}
		runtime.ReadMemStats(&after)
		if each := float64(after.Mallocs-before.Mallocs) / float64(n); i == 0 || each < fewest {
			fewest = each
		}
	}
	return fewest, nil
}

// eager times a message from one endpoint of a shard to another.
func (j *Job) eager(ctx context.Context) (res *Result, err error) {
	a, err := openAlone(ctx, "sim")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.end()) }()
	o := operation{op: "send", size: min(j.Size, largest)}
	began := clock.System.Now()
	for i := range j.Warm + j.Count {
		if i == j.Warm {
			began = clock.System.Now()
		}
		if err := a.once(ctx, o); err != nil {
			return nil, err
		}
	}
	return &Result{Nanos: float64(clock.System.Now().Sub(began)) / float64(max(j.Count, 1))}, nil
}

package job

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/wire"
)

// peers measures the heap for peers that were used once and are idle. It has them on a
// simulated device, as so many processes cannot be had on one machine.
func (j *Job) peers(ctx context.Context) (res *Result, err error) {
	f, err := sim.New(sim.Config{})
	if err != nil {
		return nil, err
	}
	dev, err := f.OpenDevice(sim.DeviceConfig{})
	if err != nil {
		return nil, err
	}
	fab, err := efa.Open(efa.Config{Device: dev, Logger: quiet})
	if err != nil {
		return nil, err
	}
	d, err := fab.OpenDomain(efa.DomainConfig{})
	if err != nil {
		return nil, errors.Join(err, fab.Close())
	}
	defer func() { err = errors.Join(err, d.Close(), fab.Close()) }()
	q, err := d.NewQueue(spare)
	if err != nil {
		return nil, err
	}
	ep, err := d.NewEndpoint(efa.EndpointConfig{AV: d.NewAddressVector(), RecvQueue: q})
	if err != nil {
		return nil, err
	}
	if err := ep.Enable(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ep.Close()) }()
	if err := j.use(ctx, ep, 0, 1); err != nil { // what is needed once
		return nil, err
	}
	before := heap()
	if err := j.use(ctx, ep, 1, j.Depth); err != nil {
		return nil, err
	}
	return &Result{Heap: float64(heap()-before) / float64(max(j.Depth, 1))}, nil
}

// use makes an actor for each of n addresses from the first on: a receive from it is
// posted and canceled.
func (j *Job) use(ctx context.Context, ep *efa.Endpoint, first, n int) error {
	var cs [1]efa.Completion
	buf := make([]byte, 8)
	for i := first; i < first+n; i++ {
		gid := [16]byte{0: 0xfe, 12: byte(i >> 24), 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)}
		from, err := ep.AddressVector().Insert(efa.NewAddress("sim", wire.MakeRawAddr(gid, 1, 1)))
		if err != nil {
			return err
		}
		id, err := ep.PostRecv(&efa.RecvReq{From: from, Directed: true, Buf: buf})
		if err != nil {
			return err
		}
		if err := ep.Cancel(id); err != nil {
			return err
		}
		switch n, err := ep.RecvQueue().Read(ctx, cs[:]); {
		case err != nil:
			return err
		case n != 1 || !errors.Is(cs[0].Err, efa.ErrCanceled):
			return fmt.Errorf("a canceled receive ended with %d completions, %w", n, cs[0].Err)
		}
	}
	return nil
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // what sync.Pool kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // a size
}

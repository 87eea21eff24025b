package suite

import (
	"context"
	"errors"
	"fmt"

	"github.com/efactor/efactor/bench/internal/echo"
	"github.com/efactor/efactor/bench/internal/job"
	"github.com/efactor/efactor/bench/internal/peers"
	"github.com/efactor/efactor/bench/internal/trial"
	"github.com/efactor/efactor/bench/stream/flow"
)

const (
	window   = 64       // of a stream where the window is not what is measured
	windows  = 4        // in a batch, after which the receiver answers
	inFlight = 64 << 20 // bytes of the buffers, at most
	piloted  = 32 << 20 // bytes, or so many messages, that a pilot moves
	pilots   = 20_000
)

// rate is messages per second, by how many sends are outstanding.
func (s *Suite) rate() (list []trial.Case) {
	for _, size := range []int{8, 4 << 10} {
		for _, w := range s.pick([]int{64, 1, 4, 16, 256}, []int{window}) {
			name := "rate/shm/" + bytes(size)
			if w != window {
				name += fmt.Sprintf("/window%d", w)
			}
			list = append(list, s.stream(name, peers.SHM, flow.Plan{Size: size, Window: w}, true))
		}
	}
	return list
}

// bandwidth is GB/s, one way and both ways.
func (s *Suite) bandwidth() (list []trial.Case) {
	for _, both := range []bool{false, true} {
		for _, size := range s.pick([]int{64 << 10, 1 << 20, 4 << 10, 4 << 20, 16 << 20}, []int{64 << 10, 1 << 20}) {
			if both && s.Short && size < 1<<20 {
				continue
			}
			name := "bandwidth/shm/"
			if both {
				name = "bandwidth/shm/both/"
			}
			c := s.stream(name+bytes(size), peers.SHM, flow.Plan{Size: size, Both: both}, false)
			if !both && size > 1<<20 {
				c.Peers = append(c.Peers, s.memcpy(size))
			}
			list = append(list, c)
		}
	}
	return list
}

// memcpy is what bounds a stream of large messages: one copy of each by one core, between
// buffers as many as the stream's.
func (s *Suite) memcpy(size int) trial.Contestant {
	return trial.Contestant{Name: "memcpy", Run: func(ctx context.Context, n int) (trial.Sample, error) {
		j := job.Job{Kind: job.Copies, Size: size, Depth: complete(flow.Plan{Size: size}).Buffers, Warm: warm(n), Count: n}
		j.Warm = max(j.Warm, j.Depth) // so that the kernel gives the memory
		r, err := j.Run(ctx, s.Self)
		if err != nil {
			return trial.Sample{}, err
		}
		return trial.Sample{Value: float64(size) / r.Nanos, Each: duration(r.Nanos)}, nil
	}}
}

func (s *Suite) bandwidthTCP() (list []trial.Case) {
	for _, size := range s.pick([]int{1 << 20, 64 << 10}, []int{1 << 20}) {
		c := s.stream("bandwidth/tcp/"+bytes(size), peers.TCP, flow.Plan{Size: size}, false)
		c.Peers = append(c.Peers, s.plainStream(echo.TCP, size))
		list = append(list, c)
	}
	for _, size := range s.pick([]int{1 << 20}, nil) {
		list = append(list, s.stream("bandwidth/tcp/both/"+bytes(size), peers.TCP, flow.Plan{Size: size, Both: true}, false))
	}
	return list
}

// complete fills in the window, if it is not what is measured, and what follows from it.
func complete(p flow.Plan) flow.Plan {
	if p.Window == 0 {
		p.Window = min(window, max(inFlight/p.Size, 1))
	}
	p.Batch, p.Buffers = windows*p.Window, p.Window
	return p
}

// stream is a case of package flow, in millions of messages or in 10^9 bytes a second.
func (s *Suite) stream(name, way string, p flow.Plan, count bool) trial.Case {
	p = complete(p)
	c := trial.Case{Name: name, Unit: "GB/s", Higher: true, Size: p.Size, Pilot: max(min(piloted/p.Size, pilots), 1)}
	scale := float64(p.Size) / 1e9
	if count {
		c.Unit, scale = "M/s", 1e-6
	}
	sample := func(r *flow.Result, err error) (trial.Sample, error) {
		if err != nil {
			return trial.Sample{}, err
		}
		rate := r.Rate()
		return trial.Sample{Value: rate * scale, Each: duration(1e9 * float64(len(r.Nanos)) / rate)}, nil
	}
	for _, alloc := range []bool{true, false} {
		if !alloc && count {
			break
		}
		ours := p
		ours.Alloc = alloc
		c.Ours = append(c.Ours, trial.Contestant{Name: map[bool]string{false: "/slice"}[alloc], Run: func(ctx context.Context, n int) (trial.Sample, error) {
			j := job.Job{Kind: job.Stream, Device: way, Progress: s.mode("auto"), Plan: ours}
			j.Plan.Messages(n)
			r, err := j.Run(ctx, s.Self)
			if err != nil {
				return trial.Sample{}, err
			}
			if r.Flow == nil {
				return trial.Sample{}, errors.New("a stream without a result")
			}
			return sample(r.Flow, r.Flow.Check(&j.Plan))
		}})
	}
	for i := range s.Peers {
		peer := &s.Peers[i]
		run := peer.Stream
		if p.Both {
			run = peer.Both
		}
		if peer.Way != way || run == nil {
			continue
		}
		c.Peers = append(c.Peers, trial.Contestant{Name: peer.Name, Run: func(ctx context.Context, n int) (trial.Sample, error) {
			q := p
			q.Messages(n)
			return sample(run(ctx, q))
		}})
	}
	return c
}

package main

import (
	"context"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// sample is what a process holds at one moment of a soak.
type sample struct {
	Memory      uint64 // as the system counts it
	Descriptors int
	Goroutines  int
}

// sampler takes one each second.
type sampler struct {
	mu   sync.Mutex
	list []sample
}

func (s *sampler) run(ctx context.Context) {
	for pause(ctx, time.Second) == nil {
		h := held()
		s.mu.Lock()
		s.list = append(s.list, sample{resident(), h.descriptors, h.goroutines})
		s.mu.Unlock()
	}
}

func (s *sampler) samples() []sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list
}

const (
	// fewSamples are too few to say that something grows.
	fewSamples = 30
	// What may be more in the end than in the middle: others come and go at any time.
	memorySlack     = 24 << 20
	descriptorSlack = 8
	goroutineSlack  = 24
)

// flat holds what a process held in the last third of its time against the third before.
func (r *row) flat(m *report) {
	n := len(m.Samples)
	if n < fewSamples {
		return
	}
	for _, x := range []struct {
		what  string
		of    func(sample) uint64
		slack uint64
	}{
		{"bytes of memory", func(s sample) uint64 { return s.Memory }, memorySlack},
		{"descriptors", func(s sample) uint64 { return uint64(s.Descriptors) }, descriptorSlack},
		{"goroutines", func(s sample) uint64 { return uint64(s.Goroutines) }, goroutineSlack},
	} {
		middle, end := median(m.Samples[n/3:2*n/3], x.of), median(m.Samples[2*n/3:], x.of)
		if end > middle+middle/8+x.slack {
			r.wrong("a steady process had %d %s in the middle of its time and %d in the end", middle, x.what, end)
		}
	}
}

func median(list []sample, of func(sample) uint64) uint64 {
	v := make([]uint64, len(list))
	for i, s := range list {
		v[i] = of(s)
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// inside runs the conductor of a device in a process of its own, where connections are reset.
func (c *conductor) inside(ctx context.Context, pl plan) {
	r := c.role
	r.Is, r.Apart, r.Device, r.Long, r.Flat = insideRole, true, "tcp", pl.long, pl.flat
	p, err := begin(r, 0)
	if err != nil {
		c.row.wrong("%v", err)
		return
	}
	defer p.kill()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { <-ctx.Done(); _ = p.in.Close() }()
	n, err := p.await("row", c.For+5*time.Minute, func(n *news) bool { return n.Row != nil })
	if err != nil {
		c.row.wrong("%v", err)
		return
	}
	c.row = *n.Row
	c.row.Device = c.Device
}

const insideRole = "inside"

// runInside is that process.
func runInside(r role, in io.Reader, out *line) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	if err := loopbackUp(); err != nil {
		return err
	}
	row := conduct(ctx, plan{
		device: r.Device, d: r.For, seed: r.Seed, calm: true, long: r.Long, flat: r.Flat, bounds: r.bounds, resets: true,
	}, io.Discard)
	out.say(news{Row: &row})
	return nil
}

// reset resets connections until ctx ends, if that is what is done here.
func (c *conductor) reset(ctx context.Context) error {
	if !c.Resets {
		return nil
	}
	s, err := newResetter()
	if err != nil {
		return err
	}
	c.foes.Go(func() {
		s.run(ctx, rand.New(rand.NewPCG(c.Seed, 1)), resetRate, func() {
			c.mu.Lock()
			c.row.Kinds["reset"]++
			c.mu.Unlock()
		})
		_ = s.Close()
	})
	return nil
}

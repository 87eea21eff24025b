package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/efactor/efactor/api/efa"
)

// windowLen is how much of everybody's memory each process has for itself; the last 8 bytes
// are a counter.
const windowLen = 64 << 10

// access writes, reads and counts in o's memory.
func (p *peer) access(o *other) {
	rng := rand.New(rand.NewPCG(p.Seed, ^(uint64(p.Index)<<32 | uint64(o.Index)<<16 | uint64(p.Life))))
	window := o.memory.Slice(uint64(p.Index*windowLen), windowLen)
	cell := efa.NewCell[uint64](window.Slice(windowLen-8, 8))
	data, back := make([]byte, windowLen-8), make([]byte, windowLen-8)
	counted, known := uint64(0), false
	for o.ctx.Err() == nil {
		n := 1 + rng.IntN(windowLen-8)
		off := rng.IntN(windowLen - 8 - n + 1)
		for i := range data[:n] {
			data[i] = byte(i) ^ byte(counted)
		}
		there := window.Slice(uint64(off), uint64(n))
		err := p.timed(o, "write", func(ctx context.Context) error { return there.Write(ctx, data[:n], efa.Complete(efa.Delivered)) })
		if err == nil {
			err = p.timed(o, "read", func(ctx context.Context) error { return there.Read(ctx, back[:n]) })
		}
		if err == nil && p.steadyWith(&o.card) && !bytes.Equal(data[:n], back[:n]) {
			p.w.wrong("%s", p.what(&o.card, "%d bytes at %d are not what was written there", n, off))
		}
		if err == nil {
			var old uint64
			err = p.timed(o, "count", func(ctx context.Context) (err error) {
				old, err = cell.FetchAdd(ctx, 1)
				return err
			})
			if err == nil && known && old != counted && p.steadyWith(&o.card) {
				p.w.wrong("%s", p.what(&o.card, "counter is %d, not %d", old, counted))
			}
			counted, known = old+1, err == nil
		}
		gap := time.Duration(1+rng.IntN(4)) * time.Millisecond
		if err != nil {
			gap, known = 50*time.Millisecond, false
		}
		_ = pause(o.ctx, gap)
	}
}

func (p *peer) timed(o *other, what string, f func(context.Context) error) error {
	ctx, cancel := p.patience(&o.card)
	defer cancel()
	c := p.w.begin(p.what(&o.card, "%s", what), p.bound(&o.card), p.steadyWith(&o.card))
	return c.end(f(ctx))
}

// visit opens an endpoint of its own again and again, as a process that has just started
// does, sends o a message, and closes it.
func (p *peer) visit(o *other) {
	b := make([]byte, 1000)
	for n := uint64(0); pause(o.ctx, 300*time.Millisecond) == nil; n++ {
		c := p.w.begin(p.what(&o.card, "first message of a new endpoint"), p.Steady, true)
		v := peer{role: p.role}
		v.QPN = 0
		fab, err := v.open()
		if c.end(err) != nil {
			continue
		}
		c = p.w.begin(p.what(&o.card, "first message of a new endpoint"), p.Steady, true)
		dom, ep, err := visitor(fab.Fabric)
		if err == nil {
			stream{p.Index, o.Index, p.Life, o.Life}.seal(b, n)
			var to efa.Addr
			if to, err = ep.AddressVector().Insert(o.Address); err == nil {
				err = ep.SendTag(p.ctx, to, visitorTag|uint64(p.Index), b, efa.Complete(efa.Delivered))
			}
		}
		_ = c.end(err)
		c = p.w.begin(p.what(&o.card, "closing a new endpoint"), p.Steady+time.Second, false)
		if ep != nil {
			err = ep.Close()
		}
		if dom != nil {
			err = errors.Join(err, dom.Close())
		}
		if err = c.end(errors.Join(err, fab.Close())); err != nil {
			p.w.wrong("%s", p.what(&o.card, "closing a new endpoint: %v", err))
		}
	}
}

func visitor(fab *efa.Fabric) (dom *efa.Domain, ep *efa.Endpoint, err error) {
	if dom, err = fab.OpenDomain(efa.DomainConfig{Spin: time.Microsecond}); err != nil {
		return nil, nil, fmt.Errorf("domain: %w", err)
	}
	if ep, err = dom.NewEndpoint(efa.EndpointConfig{}); err != nil {
		return dom, nil, fmt.Errorf("endpoint: %w", err)
	}
	return dom, ep, ep.Enable(context.Background())
}

package coll

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/api/efa"
)

// family is shared by the groups made from one New.
type family struct {
	cfg    Config
	ep     *efa.Endpoint
	limits efa.Limits
	sure   int // bytes of a message that needs no receive to be over, see sureOf
	ids    contexts
	memory memory
	pacing atomic.Int64 // messages that wait, see outflow.paced

	mu    sync.Mutex
	alive int // groups that are open
}

func newFamily(cfg Config) *family {
	f := &family{cfg: cfg, ep: cfg.Endpoint}
	f.limits = f.ep.Domain().Limits()
	f.sure = sureOf(f.ep, &f.limits)
	f.memory.dom, f.memory.reads = f.ep.Domain(), f.limits.RDMARead
	f.ids.init()
	return f
}

// how is the way to send n bytes: copied if they are few, and else over when they have
// arrived. Sends that waited for their receive would keep two that exchange from receiving.
func (f *family) how(n int) efa.OpOption {
	if n <= f.limits.MaxInject {
		return efa.Inject
	}
	return efa.Complete(efa.Transmitted)
}

// spawn runs f beside the caller.
func (f *family) spawn(fn func()) {
	if f.cfg.Go != nil {
		f.cfg.Go(fn)
		return
	}
	go fn()
}

// simulated: nothing may wait but by calling package efa.
func (f *family) simulated() bool { return f.cfg.Go != nil }

func (f *family) newSignal(s *signal) error {
	s.done = make(chan struct{})
	if !f.simulated() {
		return nil
	}
	var err error
	s.op, err = f.ep.Start(&efa.RecvReq{
		From: f.cfg.Peers[f.cfg.Rank], Directed: true,
		Tagged: true, Tag: ^uint64(0), // which is never sent
	})
	return err
}

// signal is given by one goroutine to another, which waits for it, once. In a
// simulation a program may only wait by calling package efa: there an operation
// that is canceled stands for it.
type signal struct {
	done chan struct{}
	op   *efa.Op
}

func (s *signal) set() {
	close(s.done)
	if s.op != nil {
		s.op.Cancel()
	}
}

func (s *signal) wait(ctx context.Context) error {
	if s.op != nil {
		_, _ = s.op.Wait(ctx) // the outcome of the canceled operation does not matter
		select {
		case <-s.done:
			return nil
		default:
			return fmt.Errorf("%w: %w", efa.ErrCanceled, context.Cause(ctx))
		}
	}
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", efa.ErrCanceled, context.Cause(ctx))
	}
}

// contexts are the context ids that are free in this process, one bit each.
type contexts struct {
	mu   sync.Mutex
	bits [maxContexts / 64]uint64
}

func (c *contexts) init() {
	for i := range c.bits {
		c.bits[i] = ^uint64(0)
	}
	c.take(rootContext)
	c.take(maxContexts - 1) // tags of its revocations would be the tag of signals
}

// all gives a copy of the bitmap.
func (c *contexts) all(to []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	copy(to, c.bits[:])
}

// take reports whether the id was free; it is no longer.
func (c *contexts) take(id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	bit := uint64(1) << (id % 64)
	was := c.bits[id/64]&bit != 0
	c.bits[id/64] &^= bit
	return was
}

// free gives an id back.
func (c *contexts) free(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bits[id/64] |= 1 << (id % 64)
}

// pick finds a free id in a bitmap, looking from start on. false: there is none.
func pick(bits []uint64, start uint64) (id uint64, ok bool) {
	for i := range uint64(maxContexts) {
		id = (start + i) % maxContexts
		if bits[id/64]>>(id%64)&1 != 0 {
			return id, true
		}
	}
	return 0, false
}

package coll

import (
	"context"
	"fmt"

	"github.com/efactor/efactor/api/efa"
)

// signal is given by one goroutine to another, which waits for it, once. In a
// simulation a program may only wait by calling package efa: there an operation
// that is canceled stands for it.
type signal struct {
	done chan struct{}
	op   *efa.Op
}

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

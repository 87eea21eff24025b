package party

import (
	"context"
	"fmt"
	"sync"
)

// Outcome is the outcome of an operation.
type Outcome struct {
	Errno    int // libfabric's number; 0: success
	Provider int // the provider's code of the error
	Text     string

	N, Lost  int // bytes; those that had no room
	Tag      uint64
	HasData  bool
	Data     uint64
	From     Peer
	Content  Content // of the buffer
	Result   []byte  // of fetching atomics
	Protocol string  // efactor's name of the subprotocol
}

// Err is the failure, if it is one.
func (o Outcome) Err() error {
	if o.Errno == 0 {
		return nil
	}
	return fmt.Errorf("errno %d, provider's code %d: %s", o.Errno, o.Provider, o.Text)
}

// Content describes the contents of a buffer.
type Content struct {
	Seed      int // of the pattern, modulo Modulus; -1: no bytes
	Bad       int // the first byte out of pattern, -1: none
	Over      int // the first byte that should not have been touched, -1: none
	Untouched bool
}

// Whole reports whether c is the pattern of a seed, n bytes long, and nothing else.
func (c Content) Whole(seed, n int) error {
	switch {
	case c.Bad >= 0:
		return fmt.Errorf("byte %d of %d is wrong", c.Bad, n)
	case c.Over >= 0:
		return fmt.Errorf("byte %d, which belongs to nobody, was touched", c.Over)
	case n > 0 && c.Untouched:
		return fmt.Errorf("nothing was put there")
	case n > 0 && c.Seed != seed%Modulus:
		return fmt.Errorf("data of seed %d instead of %d", c.Seed, seed%Modulus)
	}
	return nil
}

// Pending is an operation under way.
type Pending struct {
	ID  uint64 // the party's
	Op  Op
	Own any // the party's

	once sync.Once
	done chan struct{}
	out  Outcome
	err  error
}

// NewPending is for parties.
func NewPending(id uint64, op Op) *Pending {
	return &Pending{ID: id, Op: op, done: make(chan struct{})}
}

// Resolve ends it; err is a failure of the harness. Only the first call counts.
func (p *Pending) Resolve(out Outcome, err error) {
	p.once.Do(func() {
		p.out, p.err = out, err
		close(p.done)
	})
}

// Done is closed at the end.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Wait waits for the outcome.
func (p *Pending) Wait(ctx context.Context) (Outcome, error) {
	select {
	case <-p.done:
		return p.out, p.err
	case <-ctx.Done():
		return Outcome{}, fmt.Errorf("%v has not ended: %w", p.Op, ctx.Err())
	}
}

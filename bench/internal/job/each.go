package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

// each times messages that are matched each with one of many: with receives that all are posted before the first
// message, or with receives for messages that all have come before. Tags of the latter come in the job's order, those
// of what waits in that of their numbers. Rank 0 receives.
func (j *Job) each(ctx context.Context) (res *Result, err error) {
	g, err := j.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	p := &pair{Job: j, Group: g, peer: g.Peers[1-g.Rank], in: make([]byte, j.Size*j.Depth), out: make([]byte, j.Size)}
	order, rounds := p.order(), max(j.Count/max(j.Depth, 1), 1)
	if g.Rank == 1 {
		for range 1 + rounds {
			if err := p.give(ctx, order); err != nil {
				return nil, err
			}
		}
		return nil, nil //nolint:nilnil // the other process has the result
	}
	var took time.Duration
	for i := range 1 + rounds {
		t, err := p.take(ctx, order)
		if err != nil {
			return nil, err
		}
		if i > 0 { // the first round does not count
			took += t
		}
	}
	return &Result{Nanos: max(float64(took), 1) / float64(rounds)}, nil
}

// give sends the messages of a round. It ends when they are received, so that those of the next do not
// come meanwhile.
func (p *pair) give(ctx context.Context, order []int) error {
	if !p.Came {
		if _, err := p.swap(ctx, 0); err != nil { // the receives are posted
			return err
		}
	}
	for _, i := range order {
		if err := p.Endpoint.SendTag(ctx, p.peer, firstWaiting+uint64(i), p.out); err != nil {
			return err
		}
	}
	if p.Came {
		if _, err := p.swap(ctx, 0); err != nil { // the messages are there
			return err
		}
	}
	_, err := p.swap(ctx, 0)
	return err
}

// take receives them, and gives the time of one.
func (p *pair) take(ctx context.Context, order []int) (time.Duration, error) {
	if p.Came {
		return p.takeWaiting(ctx, order)
	}
	ops := make([]*efa.Op, len(order))
	for i := range ops {
		var err error
		if ops[i], err = p.post(ctx, &efa.RecvReq{Buf: p.slot(i), Tagged: true, Tag: firstWaiting + uint64(i)}); err != nil {
			return 0, err
		}
	}
	if _, err := p.swap(ctx, 0); err != nil {
		return 0, err
	}
	var began clock.Time
	for n, i := range order {
		c, err := ops[i].Wait(ctx)
		if err == nil {
			err = p.whole(c.N)
		}
		if err != nil {
			return 0, err
		}
		if n == 0 { // what comes before is the sender's start
			began = clock.System.Now()
		}
	}
	took := clock.System.Now().Sub(began) / time.Duration(max(len(order)-1, 1))
	_, err := p.swap(ctx, 0)
	return took, err
}

// takeWaiting receives messages that have come.
func (p *pair) takeWaiting(ctx context.Context, order []int) (time.Duration, error) {
	if _, err := p.swap(ctx, 0); err != nil { // comes after them
		return 0, err
	}
	began := clock.System.Now()
	for _, i := range order {
		m, err := p.Endpoint.RecvTag(ctx, efa.Match{Tag: firstWaiting + uint64(i)}, p.slot(i))
		if err == nil {
			err = p.whole(m.N)
		}
		if err != nil {
			return 0, err
		}
	}
	took := clock.System.Now().Sub(began) / time.Duration(max(len(order), 1))
	_, err := p.swap(ctx, 0)
	return took, err
}

// slot is the buffer of one of many receives.
func (p *pair) slot(i int) []byte { return p.in[i*len(p.out):][:len(p.out)] }

func (p *pair) whole(n int) error {
	if n != len(p.out) {
		return fmt.Errorf("a message has %d bytes, not %d", n, len(p.out))
	}
	return nil
}

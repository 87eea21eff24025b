package job

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/efactor/efactor/api/efa"
)

func (j *Job) idleTime() time.Duration { return time.Duration(j.Idle) * time.Millisecond }

// firstWaiting is the tag of the first that waits in the matcher.
const firstWaiting = 1000

// fill has receives wait in the matcher that no message is for, or messages that no receive
// is for, on both sides.
func (p *pair) fill(ctx context.Context) error {
	if p.Depth == 0 {
		return nil
	}
	tags := p.order()
	if p.Came {
		for _, i := range tags {
			if err := p.Endpoint.SendTag(ctx, p.peer, firstWaiting+uint64(i), make([]byte, 8)); err != nil {
				return err
			}
		}
		_, err := p.swap(ctx, 0) // comes after them
		return err
	}
	buf := make([]byte, 8)
	for _, i := range tags {
		if _, err := p.post(ctx, &efa.RecvReq{Buf: buf, Tagged: true, Tag: firstWaiting + uint64(i)}); err != nil {
			return err
		}
	}
	_, err := p.swap(ctx, 0)
	return err
}

// order is that of the tags, the same on both sides and in each run.
func (p *pair) order() []int {
	if p.Random {
		return rand.New(rand.NewPCG(1, 2)).Perm(p.Depth)
	}
	tags := make([]int, p.Depth)
	for i := range tags {
		tags[i] = i
	}
	return tags
}

// post starts a receive, and waits where the way to the shard is full.
func (p *pair) post(ctx context.Context, r *efa.RecvReq) (*efa.Op, error) {
	for {
		op, err := p.Endpoint.Start(r)
		if !errors.Is(err, efa.ErrAgain) {
			return op, err
		}
		if _, err := p.Endpoint.Stats(ctx); err != nil { // comes after all that is on the way
			return nil, err
		}
	}
}

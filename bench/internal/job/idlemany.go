package job

import (
	"context"
	"errors"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/launch"
	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/runtime/clock"
)

// idleMany is what rank 0 uses while it waits for nothing, after it has had a message from each other process and
// answered it. The others sleep meanwhile.
func (j *Job) idleMany(ctx context.Context) (res *Result, err error) {
	g, err := j.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if g.Rank != 0 {
		b := make([]byte, 8)
		if err := g.Endpoint.SendTag(ctx, g.Peers[0], tag, b); err != nil {
			return nil, err
		}
		for range 2 { // the answer, and the end
			if _, err := g.Endpoint.RecvTag(ctx, efa.Match{Tag: tag}, b); err != nil {
				return nil, err
			}
		}
		return nil, nil //nolint:nilnil // rank 0 has the result
	}
	for range g.Peers[1:] {
		if _, err := g.Endpoint.RecvTag(ctx, efa.Match{Tag: tag}, make([]byte, 8)); err != nil {
			return nil, err
		}
	}
	if err := toAll(ctx, g); err != nil {
		return nil, err
	}
	versus.Settle(j.idleTime()) // until the answers are out, and all sleep
	used := versus.OwnCPU()
	<-clock.NewTimer(j.idleTime()).C
	res = &Result{IdleCPU: float64(versus.OwnCPU() - used)}
	return res, toAll(ctx, g)
}

// toAll sends a message to each other process.
func toAll(ctx context.Context, g *launch.Group) error {
	for _, to := range g.Peers[1:] {
		if err := g.Endpoint.SendTag(ctx, to, tag, make([]byte, 8)); err != nil {
			return err
		}
	}
	return nil
}

package script

import (
	"context"
	"fmt"

	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
)

// poolDepth is the number of requests that fit the pool's ring.
const poolDepth = 64

// openPool gives the endpoint a pool of receives, whose outcomes go where all others go.
func (r *Rig) openPool(cfg *endpoint.Config) (err error) {
	if r.Pool, err = endpoint.OpenSRX(endpoint.SRXConfig{Shard: r.Shard, Depth: poolDepth}); err != nil {
		return fmt.Errorf("script: open the pool: %w", err)
	}
	cfg.SRX, cfg.SRXSink = r.Pool, r
	return nil
}

func (r *Rig) closePool() error {
	if r.Pool == nil {
		return nil
	}
	if err := r.Pool.Close(context.Background()); err != nil {
		return fmt.Errorf("close pool: %w", err)
	}
	return nil
}

// SubmitPool posts a receive in the pool.
func (r *Rig) SubmitPool(req ope.Request) *Op {
	op := r.newOp(req, 0)
	op.pool = true
	if !r.Pool.Submit(&op.Req) {
		op.Ends++
		r.log("%s refused", op.Name)
	}
	return op
}

// Waive implements endpoint.SRXSink: a place that Room took is free again.
func (r *Rig) Waive() {
	if r.Rooms >= 0 {
		r.Rooms++
	}
}

// Took implements endpoint.SRXSink.
func (r *Rig) Took(*ope.Request) {}

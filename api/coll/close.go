package coll

import (
	"context"
	"errors"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/errtext"
)

// Close ends the group. All ranks call it: it returns when they have, so that a
// rank may then end its program without an error at the others; the endpoint is
// best ended by its Shutdown. It waits for collectives in progress.
//
// In a group that has failed, Close waits until the other ranks know of that or are
// dead: from then on buffers that were lent to its collectives are not read any more.
// With a ctx that has ended it cannot wait, and promises nothing about them. Even with
// an error, the group is closed.
//
// With the last group that came from a New, memory of Alloc goes.
func (c *Comm) Close(ctx context.Context) (err error) {
	defer errtext.Wrap("coll", "close", &err)
	g := c.group
	if !g.closed.CompareAndSwap(false, true) {
		return nil
	}
	g.mu.Lock()
	open := make([]*Request, 0, len(g.pending))
	for r := range g.pending {
		open = append(open, r)
	}
	g.mu.Unlock()

	for _, r := range open {
		if errors.Is(r.Wait(ctx), efa.ErrCanceled) && ctx.Err() != nil {
			_ = g.fail(&RankError{g.rank, givenUp(ctx)})
			_ = r.Wait(context.WithoutCancel(ctx))
		}
	}
	well := g.claim.Load() == nil
	x := newCall(c, kindClose, nil)
	typed[byte](x)
	err = x.run(ctx)
	g.revocations.stop()
	switch {
	case err == nil:
		g.ids.free(g.id)
	case !well:
		g.quiesce(ctx)
	}

	g.family.mu.Lock()
	g.alive--
	last := g.alive == 0
	g.family.mu.Unlock()
	if last {
		err = errors.Join(err, g.memory.close())
	}
	return err
}

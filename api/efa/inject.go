package efa

import (
	"context"

	"github.com/efactor/efactor/actors/ope"
)

// injected is the sink of injected messages: nobody waits for them, so a failure
// goes to the send queue if there is one, and is counted in any case.
type injected struct{ core *core }

// Done implements ope.Sink, on the shard.
func (s injected) Done(q *ope.Request, r *ope.Result) {
	if to := s.core.sendTo; to != nil {
		to.Done(q, r)
		return
	}
	s.core.finished(q, r)
	if r.Err != nil {
		s.core.log.Warn("injected message failed", "peer", q.Peer, "err", r.Err)
	}
}

// inject hands over a message whose bytes were copied.
func (e *Endpoint) inject(ctx context.Context, req *ope.Request) error {
	if !e.tx.try() {
		if err := e.tx.wait(ctx, e.sh); err != nil {
			return err
		}
	}
	req.Sink = e.injectTo
	req.ID = e.lastID.Add(1)
	e.submit(req)
	return nil
}

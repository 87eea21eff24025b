package efatest_test

import (
	"context"
	"errors"
	"time"

	"github.com/efactor/efactor/internal/model"
)

// patience is how long nothing may come before it counts as quiet: many times the
// longest back-off, since what a canceled send left may be in it.
const patience = 20 * time.Millisecond

// mopUp receives the messages that no receive of a loose receiver took, until there
// are no more senders and messages, and cancels the remaining receives then.
func (n *node) mopUp(ctx context.Context) error {
	r := n.run
	if n.plan.rest == restNext {
		if err := n.nextRest(ctx); err != nil {
			return err
		}
	}
	open := map[bool]*incoming{} // by kind
	for quiet := 0; quiet < 3 && !n.closed && n.plan.rest != restNext; {
		for _, tagged := range []bool{true, false} {
			if in := open[tagged]; in != nil && !in.ended {
				continue
			}
			in, err := n.postRest(ctx, tagged)
			if err != nil {
				return err
			}
			open[tagged] = in
		}
		err := func() error {
			ctx, cancel := r.w.WithTimeout(ctx, patience)
			defer cancel()
			return n.reapRecvs(ctx)
		}()
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			if r.sending == 0 {
				quiet++
			}
		case err != nil && !n.closed:
			return err
		default:
			quiet = 0
		}
	}
	for _, in := range n.waiting {
		if err := n.cancelRecv(in); err != nil && !n.closed {
			return err
		}
	}
	for n.recvsOut > 0 {
		if err := n.reapRecvs(ctx); err != nil {
			return err
		}
	}
	return n.attend(ctx) // what found no room in the queue
}

// postRest posts a receive of everything of a kind. It may have ended when postRest returns.
func (n *node) postRest(ctx context.Context, tagged bool) (*incoming, error) {
	rc := &receive{size: min(max(n.plan.maxBytes, 64), maxSize), pieces: 1}
	rc.Tagged, rc.Ignore, rc.Source = tagged, ^uint64(0), model.Any
	var many *multi
	if n.plan.rest == restMulti {
		rc.Many = true
		many = &multi{minLeft: n.drawRest(len(n.takes), rc)}
	}
	in := n.incoming(rc)
	in.many = many
	n.posted = append(n.posted, rc)
	return in, n.postRecv(ctx, in, 0)
}

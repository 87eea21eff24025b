package efatest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/efactor/efactor/api/efa"
)

// hear takes the news that a peer has written here with data.
func (n *node) hear(c *efa.Completion) {
	r := n.run
	i := int(uint32(c.Data)) - firstAccess
	if i < 0 || i >= len(r.p.accesses) || c.ID != 0 || c.Token != 0 || c.Err != nil || !c.HasData {
		r.fail("endpoint %d heard of a write that nobody made: %+v", n.id, *c)
		return
	}
	a := r.p.accesses[i]
	r.w.Logf("heard of %v", a)
	r.stats["remote write"]++
	a.told++
	n.told++
	a.heardData = c.Data
	if a.to != n.id || !r.wrote(a, c.Raw()) || !a.mayHear(c.N) || a.kind != write || !a.hasData || n.counted(a) {
		r.fail("endpoint %d heard of %v: %+v", n.id, a, *c)
	}
	if a.slot != nil {
		a.slot.Settle(a.id, r.tick())
	}
	r.landed(a.after, a)
}

// attend receives notifications of peers' writes until there are no more.
func (n *node) attend(ctx context.Context) error {
	r := n.run
	for quiet := 0; quiet < 2 && !n.closed; {
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
			return fmt.Errorf("listen to writes: %w", err)
		default:
			quiet = 0
		}
	}
	return nil
}

// checkTold: a write with data was reported exactly once, if it was written.
func (r *run) checkTold() {
	r.hearCounted()
	for _, a := range r.p.accesses {
		if a.kind != write || !a.hasData {
			continue
		}
		lost := r.cast[a.from].removed
		sure := a.done && a.wrong == right && !r.died(a.from, a.to) && (!a.store.closing || a.n > 0 && a.heard()) &&
			!(a.style == injected && lost != nil && lost.id == a.to)
		if a.told > 1 || a.told == 0 && sure || a.told > 0 && a.wrong != right {
			r.fail("%v by %v was told of %d times", a, a.protocol, a.told)
		}
		r.checkData(a)
	}
	for _, n := range r.cast {
		ok, failed := n.writes.Value()
		if ok != uint64(n.told) && !n.doomed || failed != 0 {
			r.fail("endpoint %d heard of %d writes, its counter says %d and %d", n.id, n.told, ok, failed)
		}
	}
}

package efatest_test

import (
	"math/rand/v2"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/wire"
)

// Fences, orders of endpoints, and endpoints that keep no order of what they receive. They
// have a stream of numbers of their own, so that what else a seed does stays as it was.

// drawOrder draws them, when the tasks are known.
func (p *plan) drawOrder() {
	d := draw{rand.New(rand.NewPCG(p.seed, 0x0bde7))}
	share := pick(d, 0, .02, .1, .3)
	atomics := make(map[int]bool)
	for _, t := range p.tasks {
		fence := d.chance(share)
		switch {
		case t.m != nil:
			t.m.fence = fence
		default:
			t.a.fence = fence
			if t.a.kind == update {
				atomics[t.a.to] = true
			}
		}
	}
	for i, np := range p.nodes {
		if d.chance(.15) {
			np.cfg.Order = pick(d,
				efa.SendAfterWrite, efa.SendAfterWrite|efa.WriteAfterWrite, efa.WriteAfterWrite|efa.ReadAfterWrite,
				efa.Order(1+d.IntN(int(allOrders))))
		}
		// Strict receivers count on the order, and so does the model of atomics.
		np.cfg.Unordered = np.loose && !atomics[i] && d.chance(.2)
	}
}

const allOrders = efa.ReadAfterRead<<1 - 1

// earlier are the writes of one endpoint to another one that had begun when something was
// asked for that waits for them.
type earlier []*access

// behind returns the writes that an operation of n with another waits for: by a fence, or by
// an order of the endpoint.
func (n *node) behind(to int, fence bool, o efa.Order) earlier {
	r := n.run
	if !fence && n.plan.cfg.Order&o == 0 || r.p.flavor != calm || r.p.broken {
		return nil
	}
	var list earlier
	for _, a := range n.wrote {
		mayFail := a.timeout > 0 || a.mem == doomed || // which its program may not know yet
			a.level > 0 && !r.p.both(n.id, to, wire.FeatureDeliveryComplete)
		if a.to == to && !a.failed && !mayFail {
			list = append(list, a)
		}
	}
	return list
}

// landed checks that they are in memory, now that what waited for them is seen to have
// happened.
func (r *run) landed(list earlier, what any) {
	for _, a := range list {
		s := a.slot
		if a.failed || a.store.closing || r.p.pressed(a.from) || r.p.pressed(a.to) {
			continue
		}
		now := r.tick()
		s.Settle(a.id, now)
		if err := s.Judge(a.store.mem[s.at:][:s.Len], 0, now+1, now+1); err != nil {
			r.fail("%v was seen before %v: %w", what, a, err)
		}
		r.stats["order kept"]++
	}
}

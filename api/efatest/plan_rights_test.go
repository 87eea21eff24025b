package efatest_test

import (
	"math/rand/v2"
	"slices"

	"github.com/efactor/efactor/api/efa"
)

// drawRights has an endpoint of some seeds be no target of some accesses, whatever the memory
// allows, and one begin no accesses of some kinds. All other draws are independent of it.
func (p *plan) drawRights() {
	d := draw{rand.New(rand.NewPCG(p.seed, 0x4197))}
	target, initiator := d.IntN(len(p.nodes)), d.IntN(len(p.nodes))
	if d.chance(.3) && !p.takenForGranted() {
		c := d.lacking()
		p.nodes[target].cfg.Target = c
		p.tasks = slices.DeleteFunc(p.tasks, func(t task) bool {
			refused := t.a != nil && t.a.to == target && c&t.a.kind.right() == 0
			switch {
			case !refused:
			case t.a.n == 0: // a request for nothing may be let in
				t.a.failed = true
				return true
			case t.a.wrong == right:
				t.a.wrong = wrongTarget
			}
			return false
		})
	}
	if d.chance(.2) {
		c := d.lacking()
		p.nodes[initiator].cfg.Initiate = c
		for _, a := range p.accesses {
			if a.from == initiator && c&a.kind.right() == 0 {
				a.wrong = wrongInitiator
			}
		}
	}
	if len(p.tasks) == 0 {
		panic("efatest: a seed without tasks")
	}
}

// takenForGranted reports whether a peer may take an endpoint's features for granted, or cannot
// learn that it was refused.
func (p *plan) takenForGranted() bool {
	return slices.ContainsFunc(p.nodes, func(np *nodePlan) bool { return np.cfg.Protocol.Homogeneous || np.knobs().Era != "" })
}

// lacking draws rights without one or two of those to reads, writes and atomics.
func (d draw) lacking() efa.Caps {
	c := efa.CapMessages | efa.CapRead | efa.CapWrite | efa.CapAtomic
	for range 1 + d.IntN(2) {
		c &^= pick(d, efa.CapRead, efa.CapWrite, efa.CapAtomic)
	}
	return c
}

// right is the one that an access takes.
func (k accessKind) right() efa.Caps {
	return [...]efa.Caps{write: efa.CapWrite, read: efa.CapRead, update: efa.CapAtomic}[k]
}

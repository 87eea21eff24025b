package efatest_test

import (
	"slices"

	"github.com/efactor/efactor/api/efa/amo"
)

// updates are the operations that change memory. Differences are efactor's alone, so they are
// left out where a node behaves as a libfabric.
func (p *plan) updates() []amo.Op {
	for i := range p.nodes {
		if p.nodes[i].knobs().Era != "" {
			return updates
		}
	}
	return append(slices.Clip(updates), amo.Diff)
}

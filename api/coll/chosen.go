package coll

import "slices"

// Chosen is the name of the algorithm for a collective, as in spans: the one that [Use]
// requests in the options, or the one that fits. bytes is a rank's contribution; for
// Bcast and the reductions the whole buffer, for Gather, Scatter and Allgather a rank's
// part, for Allgatherv and Alltoall all parts. It is empty if there is no such
// collective.
func (c *Comm) Chosen(collective string, bytes int, opts ...Option) string {
	k := slices.Index(kindNames[:], collective)
	if k <= 0 {
		return ""
	}
	x := &call{group: c.group, kind: kind(k), set: c.set, bytes: bytes}
	x.set.apply(opts)
	return x.choose().name
}

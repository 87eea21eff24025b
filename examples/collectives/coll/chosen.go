package coll

import "slices"

// Chosen is the name of the algorithm that a collective is done by, as spans have it:
// what [Use] asks for in the options, or what fits. bytes is what one rank brings; of
// Bcast and the reductions the whole buffer, of Gather, Scatter and Allgather a rank's
// part, of Allgatherv and Alltoall all parts. It is empty if there is no such collective.
func (c *Comm) Chosen(collective string, bytes int, opts ...Option) string {
	k := slices.Index(kindNames[:], collective)
	if k <= 0 {
		return ""
	}
	x := &call{group: c.group, kind: kind(k), set: c.set, bytes: bytes}
	x.set.apply(opts)
	return x.choose().name
}

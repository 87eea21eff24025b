package coll

// choose returns the algorithm for a collective. It is a function of values that all
// ranks know, so that they reach the same result. bytes is a rank's contribution (for
// Bcast and reductions, the buffer; for Gather, Scatter and Allgather, a rank's part;
// for Allgatherv and Alltoall, all parts), ordered that the operator does not
// commute.
//
// The switch points are those of the literature, where a second term begins to
// count: log p steps that carry everything against p steps that carry a part.
func choose(k kind, bytes, ranks int, ordered bool) string {
	pow2 := powerOfTwo(ranks, false)
	switch k {
	case kindBcast:
		switch {
		case ranks <= 2 || bytes <= 64<<10:
			return "binomial"
		case bytes <= 512<<10 || ranks >= 64:
			return "scatter-allgather"
		default:
			return "pipeline"
		}
	case kindGather, kindScatter:
		if bytes <= 8<<10 && ranks > 2 {
			return "binomial"
		}
		return "linear"
	case kindAllgather:
		switch {
		case bytes <= (64<<10)/ranks && pow2:
			return "recursive-doubling"
		case bytes <= (64<<10)/ranks:
			return "bruck"
		default:
			return "ring"
		}
	case kindAllgatherv:
		if bytes <= 64<<10 {
			return "bruck"
		}
		return "ring"
	case kindAlltoall:
		if bytes/ranks <= 256 && ranks >= 8 {
			return "bruck"
		}
		return "pairwise"
	case kindReduce:
		if bytes <= 64<<10 || ordered {
			return "binomial"
		}
		return "rabenseifner"
	case kindAllreduce:
		switch {
		case bytes <= 16<<10 || ordered || ranks == 2 && bytes <= 64<<10:
			return "recursive-doubling"
		case bytes <= 512<<10 || ranks <= 4:
			return "rabenseifner"
		default:
			return "ring"
		}
	case kindReduceScatter:
		switch {
		case ordered:
			return "reduce-scatterv"
		case pow2 && bytes <= 512<<10:
			return "recursive-halving"
		default:
			return "pairwise"
		}
	case kindScan, kindExscan:
		if bytes <= 64<<10 {
			return "recursive-doubling"
		}
		return "linear"
	case kindBarrier, kindClose:
		return "dissemination"
	case kindGatherv, kindScatterv:
		return "linear"
	case kindAlltoallv:
		return "pairwise"
	default:
		return ""
	}
}

// choose is the algorithm of the call: the one that was asked for, if it can be.
func (x *call) choose() *algorithm {
	all := algorithms[x.kind]
	if len(all) == 1 {
		return &all[0]
	}
	name := ""
	if x.set.use != "" {
		name = x.set.use
	}
	for pass := range 2 {
		if pass == 1 || name == "" {
			name = choose(x.kind, x.bytes, len(x.peers), x.set.ordered)
		}
		for i := range all {
			if a := &all[i]; a.name == name && (a.fits == nil || a.fits(len(x.peers), x.set.ordered)) {
				return a
			}
		}
	}
	return &all[0]
}

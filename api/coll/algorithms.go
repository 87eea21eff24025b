package coll

import (
	"slices"
)

// kind is a collective.
type kind uint8

const (
	kindBarrier kind = iota + 1
	kindBcast
	kindGather
	kindGatherv
	kindScatter
	kindScatterv
	kindAllgather
	kindAllgatherv
	kindAlltoall
	kindAlltoallv
	kindReduce
	kindAllreduce
	kindReduceScatter
	kindScan
	kindExscan
	kindClose // the barrier before the end of a group
	numKinds
)

var kindNames = [numKinds]string{
	kindBarrier:       "barrier",
	kindBcast:         "bcast",
	kindGather:        "gather",
	kindGatherv:       "gatherv",
	kindScatter:       "scatter",
	kindScatterv:      "scatterv",
	kindAllgather:     "allgather",
	kindAllgatherv:    "allgatherv",
	kindAlltoall:      "alltoall",
	kindAlltoallv:     "alltoallv",
	kindReduce:        "reduce",
	kindAllreduce:     "allreduce",
	kindReduceScatter: "reducescatter",
	kindScan:          "scan",
	kindExscan:        "exscan",
	kindClose:         "close",
}

// String names the collective as spans and Algorithms do.
func (k kind) String() string { return kindNames[k] }

// algorithm is one way to do a collective.
type algorithm struct {
	name string
	// fits reports whether it can be used; nil: always.
	fits  func(ranks int, ordered bool) bool
	run   func(x *call) error
	index int // among those of the collective
}

func powerOfTwo(ranks int, _ bool) bool { return ranks&(ranks-1) == 0 }

func commutes(_ int, ordered bool) bool { return !ordered }

func commutesPowerOfTwo(ranks int, ordered bool) bool { return ranks&(ranks-1) == 0 && !ordered }

// algorithms has all there are. The first of each collective is always possible.
var algorithms = table([numKinds][]algorithm{
	kindBarrier: {{name: "dissemination", run: (*call).dissemination}},
	kindBcast: {
		{name: "binomial", run: (*call).bcastBinomial},
		{name: "scatter-allgather", run: (*call).bcastScatterAllgather},
		{name: "pipeline", run: (*call).bcastPipeline},
	},
	kindGather: {
		{name: "binomial", run: (*call).gatherBinomial},
		{name: "linear", run: (*call).gatherLinear},
	},
	kindGatherv: {{name: "linear", run: (*call).gatherLinear}},
	kindScatter: {
		{name: "binomial", run: (*call).scatterBinomial},
		{name: "linear", run: (*call).scatterLinear},
	},
	kindScatterv: {{name: "linear", run: (*call).scatterLinear}},
	kindAllgather: {
		{name: "ring", run: (*call).allgatherRing},
		{name: "bruck", run: (*call).allgatherBruck},
		{name: "recursive-doubling", fits: powerOfTwo, run: (*call).allgatherDoubling},
	},
	kindAllgatherv: {
		{name: "ring", run: (*call).allgatherRing},
		{name: "bruck", run: (*call).allgatherBruck},
	},
	kindAlltoall: {
		{name: "pairwise", run: (*call).alltoallPairwise},
		{name: "bruck", run: (*call).alltoallBruck},
	},
	kindAlltoallv: {{name: "pairwise", run: (*call).alltoallPairwise}},
	kindReduce: {
		{name: "binomial", run: (*call).reduceBinomial},
		{name: "rabenseifner", fits: commutes, run: (*call).reduceRabenseifner},
	},
	kindAllreduce: {
		{name: "recursive-doubling", run: (*call).allreduceDoubling},
		{name: "rabenseifner", fits: commutes, run: (*call).allreduceRabenseifner},
		{name: "ring", fits: commutes, run: (*call).allreduceRing},
	},
	kindReduceScatter: {
		{name: "reduce-scatterv", run: (*call).reduceThenScatter},
		{name: "pairwise", fits: commutes, run: (*call).reduceScatterPairwise},
		{name: "ring", fits: commutes, run: (*call).reduceScatterRing},
		{name: "recursive-halving", fits: commutesPowerOfTwo, run: (*call).reduceScatterHalving},
	},
	kindScan: {
		{name: "recursive-doubling", run: (*call).scanDoubling},
		{name: "linear", run: (*call).scanLinear},
	},
	kindExscan: {
		{name: "recursive-doubling", run: (*call).scanDoubling},
		{name: "linear", run: (*call).scanLinear},
	},
	kindClose: {{name: "dissemination", run: (*call).dissemination}},
})

func table(t [numKinds][]algorithm) [numKinds][]algorithm {
	for _, l := range t {
		for i := range l {
			l[i].index = i
		}
	}
	return t
}

// Collectives lists the collectives by the names that spans have, and Algorithms
// takes.
func Collectives() []string { return slices.Clone(kindNames[kindBarrier:kindClose]) }

// Algorithms lists the names of a collective's algorithms, for [Use].
func Algorithms(collective string) []string {
	var names []string
	if k := slices.Index(kindNames[:], collective); k > 0 {
		for _, a := range algorithms[k] {
			names = append(names, a.name)
		}
	}
	return names
}

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

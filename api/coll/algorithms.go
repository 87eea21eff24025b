package coll

import (
	"slices"
)

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

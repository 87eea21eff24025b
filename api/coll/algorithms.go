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
	kindBarrier: {{name: "dissemination", run: dissemination}},
	kindBcast: {
		{name: "binomial", run: bcastBinomial},
		{name: "scatter-allgather", run: bcastScatterAllgather},
		{name: "pipeline", run: bcastPipeline},
	},
	kindGather: {
		{name: "binomial", run: gatherBinomial},
		{name: "linear", run: gatherLinear},
	},
	kindGatherv: {{name: "linear", run: gatherLinear}},
	kindScatter: {
		{name: "binomial", run: scatterBinomial},
		{name: "linear", run: scatterLinear},
	},
	kindScatterv: {{name: "linear", run: scatterLinear}},
	kindAllgather: {
		{name: "ring", run: allgatherRing},
		{name: "bruck", run: allgatherBruck},
		{name: "recursive-doubling", fits: powerOfTwo, run: allgatherDoubling},
	},
	kindAllgatherv: {
		{name: "ring", run: allgatherRing},
		{name: "bruck", run: allgatherBruck},
	},
	kindAlltoall: {
		{name: "pairwise", run: alltoallPairwise},
		{name: "bruck", run: alltoallBruck},
	},
	kindAlltoallv: {{name: "pairwise", run: alltoallPairwise}},
	kindReduce: {
		{name: "binomial", run: reduceBinomial},
		{name: "rabenseifner", fits: commutes, run: reduceRabenseifner},
	},
	kindAllreduce: {
		{name: "recursive-doubling", run: allreduceDoubling},
		{name: "rabenseifner", fits: commutes, run: allreduceRabenseifner},
		{name: "ring", fits: commutes, run: allreduceRing},
	},
	kindReduceScatter: {
		{name: "reduce-scatterv", run: reduceThenScatter},
		{name: "pairwise", fits: commutes, run: reduceScatterPairwise},
		{name: "ring", fits: commutes, run: reduceScatterRing},
		{name: "recursive-halving", fits: commutesPowerOfTwo, run: reduceScatterHalving},
	},
	kindScan: {
		{name: "recursive-doubling", run: scanDoubling},
		{name: "linear", run: scanLinear},
	},
	kindExscan: {
		{name: "recursive-doubling", run: scanDoubling},
		{name: "linear", run: scanLinear},
	},
	kindClose: {{name: "dissemination", run: dissemination}},
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

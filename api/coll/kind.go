package coll

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

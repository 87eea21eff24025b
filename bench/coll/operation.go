package main

import "slices"

// operation is a collective as the benchmark knows it.
type operation struct {
	name string
	// factor converts size by time to bus bandwidth, as nccl-tests does: the load
	// of the busiest link, were the algorithm perfect.
	factor func(ranks int) float64
	// reduces: it combines elements.
	reduces bool
	// parts: size is that of all ranks' parts together.
	parts bool
	// apart: ranks may leave before others have come, so that calls are separated
	// by barriers, which are not timed.
	apart bool
	// lengths returns how many parts of size/ranks elements, if parts, or of size
	// elements, a rank sends and receives.
	in, out func(ranks int, root bool) int
}

var operations = []operation{
	{name: "allreduce", factor: twice(others), reduces: true, in: single, out: single},
	{name: "allgather", factor: others, parts: true, in: single, out: all},
	{name: "alltoall", factor: others, parts: true, in: all, out: all},
	{name: "reducescatter", factor: others, reduces: true, parts: true, in: all, out: single},
	{name: "bcast", factor: whole, apart: true, in: single, out: single},
	{name: "reduce", factor: whole, reduces: true, apart: true, in: single, out: singleOfRoot},
	{name: "gather", factor: others, parts: true, apart: true, in: single, out: allOfRoot},
	{name: "scatter", factor: others, parts: true, apart: true, in: allOfRoot, out: single},
	{name: "scan", factor: whole, reduces: true, apart: true, in: single, out: single},
	{name: "barrier", factor: whole, in: none, out: none},
}

// findOperations returns those of a list of names; all is every one.
func findOperations(names []string) (found []operation, unknown []string) {
	for _, name := range names {
		i := slices.IndexFunc(operations, func(op operation) bool { return op.name == name })
		switch {
		case name == "all":
			found = append(found, operations...)
		case i < 0:
			unknown = append(unknown, name)
		default:
			found = append(found, operations[i])
		}
	}
	return found, unknown
}

func whole(int) float64    { return 1 }
func others(n int) float64 { return float64(n-1) / float64(n) }

func twice(f func(int) float64) func(int) float64 {
	return func(n int) float64 { return 2 * f(n) }
}

func none(int, bool) int        { return 0 }
func single(int, bool) int      { return 1 }
func all(ranks int, _ bool) int { return ranks }

func singleOfRoot(_ int, root bool) int {
	if root {
		return 1
	}
	return 0
}

func allOfRoot(ranks int, root bool) int { return ranks * singleOfRoot(ranks, root) }

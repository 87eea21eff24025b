// Package trial has contestants do the same in turns and says how they compare.
//
// A [Case] is what is measured: a figure of efactor's and those of its peers. A [Runner]
// measures a case in rounds; each round has every contestant once, so that what else the
// machine does meets all of them. An [Outcome] has the figures of all rounds, and makes a
// [Line] for each pair: medians, spread, their ratio, and the probability of such a
// difference if there were none (Mann and Whitney's test, by golang.org/x/perf/benchmath).
package trial

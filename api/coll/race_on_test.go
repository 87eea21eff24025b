//go:build race

package coll_test

// The extent of the plain tests. The race detector makes everything ten times
// slower, and a world runs in one goroutine at a time.
const (
	raceEnabled = true
	playSeeds   = 20
	playDeaths  = 16
)

var sizes = []int{1, 3, 4, 8}

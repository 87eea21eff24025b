//go:build !race

package coll_test

// The extent of the plain tests.
const (
	raceEnabled = false
	playSeeds   = 100
	playDeaths  = 60
)

var sizes = []int{1, 2, 3, 4, 5, 7, 8, 16}

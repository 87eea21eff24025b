//go:build race

package efatest_test

// How much the plain tests play. The race detector makes everything ten times
// slower, and a world runs in one goroutine at a time.
const (
	playSeeds    = 12
	replaySeeds  = 2
	watchedSeeds = 6
)

//go:build race

package efatest_test

// The extent of the plain tests. The race detector makes everything ten times
// slower, and a world runs in one goroutine at a time.
const (
	playSeeds    = 12
	replaySeeds  = 2
	queuedSeeds  = 4
	watchedSeeds = 6
	underRace    = true
)

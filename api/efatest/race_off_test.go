//go:build !race

package efatest_test

// The extent of the plain tests.
const (
	playSeeds    = defaultSeeds
	replaySeeds  = 8
	queuedSeeds  = 24
	watchedSeeds = 60
	underRace    = false
)

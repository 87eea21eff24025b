//go:build !race

package efatest_test

// How much the plain tests play.
const (
	playSeeds    = defaultSeeds
	replaySeeds  = 8
	watchedSeeds = 60
)

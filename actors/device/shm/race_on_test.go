//go:build race

package shm

// raceOn: the detector is there. What runs in one goroutine has no use for it and
// is ten times slower.
const raceOn = true

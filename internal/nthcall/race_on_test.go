//go:build race

package nthcall

// raceOn: the race detector is on.
const raceOn = true

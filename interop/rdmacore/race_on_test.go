//go:build linux && race

package rdmacore

// raceOn: the emulator is built with the race detector too.
const raceOn = true

//go:build linux && !race

package rdmacore

const raceOn = false

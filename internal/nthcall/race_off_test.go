//go:build !race

package nthcall

const raceOn = false

//go:build !race

package efa_test

const raceEnabled = false

//go:build race

package efa_test

const raceEnabled = true

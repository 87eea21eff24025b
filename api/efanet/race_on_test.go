//go:build race

package efanet_test

const raceEnabled = true

//go:build race

package driver_test

const race = true

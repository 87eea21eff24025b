//go:build race

package libfabric_test

const race = true

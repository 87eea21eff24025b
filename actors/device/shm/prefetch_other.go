//go:build !amd64 || race

package shm

// The prefetches do nothing here.
func prefetchWrite(*uint64) {}
func prefetchRead(*uint64)  {}

//go:build !amd64 || race

package shm

import "sync/atomic"

// storeRelease stores v at p after everything before it.
func storeRelease(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

// The prefetches do nothing here.
func prefetchWrite(*uint64) {}
func prefetchRead(*uint64)  {}

//go:build !amd64 || race || purego

package sys

import "sync/atomic"

func storeRelease(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

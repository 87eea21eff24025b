//go:build !amd64 || race || purego

package sys

import (
	"math"
	"sync/atomic"
)

const farMin = math.MaxInt

func copyFar(dst, src []byte) int { return copy(dst, src) }

func storeRelease(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

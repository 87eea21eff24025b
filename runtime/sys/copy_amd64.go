//go:build !race && !purego

package sys

import (
	"golang.org/x/sys/cpu"
)

// farMin is from where on copyFar pays: 2 KiB take as long as by copy, or longer between the threads of
// one core.
const farMin = 4096

// copyFar copies by one string instruction, where the processor has a fast one.
func copyFar(dst, src []byte) int {
	if !cpu.X86.HasERMS {
		return copy(dst, src)
	}
	moveString(&dst[0], &src[0], len(dst))
	return len(dst)
}

// moveString copies n bytes by REP MOVSB, which keeps no order among its stores, but with those
// before and after it (Intel SDM 3A, 9.2.4).
//
//go:noescape
func moveString(dst, src *byte, n int)

// storeRelease is a plain store, which amd64 keeps behind all earlier ones. The directive below
// makes the compiler do so, too: it moves no store across a call of another function. sync/atomic
// has only the sequentially consistent store, an XCHG that waits until the line has come from the
// other core: BenchmarkStoreRelease takes 190 to 320 ns for 64 words, and 680 to 2,200 with XCHG.
//
//go:noinline
func storeRelease(p *uint64, v uint64) { *p = v }

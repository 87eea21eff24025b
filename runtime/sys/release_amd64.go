//go:build amd64 && !race && !purego

package sys

// storeRelease is a plain store, which amd64 keeps behind all earlier ones, and the compiler, too,
// since it does not look into the call. sync/atomic has only the sequentially consistent one, an
// XCHG that waits until the line has come from the other core (100 to 150 ns); the stores of a
// batch of posts should overlap.
//
//go:noinline
func storeRelease(p *uint64, v uint64) { *p = v }

//go:build amd64 && !race

package shm

// storeRelease stores v at p after everything before it. sync/atomic has only the
// sequentially consistent store, an XCHG that waits until the line has come from
// the other core (100 to 150 ns); the stores of a batch of posts should overlap.
//
//go:noescape
func storeRelease(p *uint64, v uint64)

// prefetchWrite begins to fetch the line of p for writing, and does not wait for
// it. Processors without the instruction take it for a NOP.
//
//go:noescape
func prefetchWrite(p *uint64)

// prefetchRead begins to fetch the line of p and does not wait for it.
//
//go:noescape
func prefetchRead(p *uint64)

//go:build amd64 && !race

package shm

// storeRelease stores v at p after everything before it. sync/atomic has only the
// sequentially consistent store, an XCHG that waits until the line has come from
// the other core (100 to 150 ns); the posts of a batch shall overlap.
//
//go:noescape
func storeRelease(p *uint64, v uint64)

// prefetchWrite begins to bring the line of p here, to be written to, and does not
// wait for it. Processors that cannot take it for a NOP.
//
//go:noescape
func prefetchWrite(p *uint64)

// prefetchRead begins to bring the line of p here and does not wait for it.
//
//go:noescape
func prefetchRead(p *uint64)

//go:build amd64 && !race

package shm

// storeRelease stores v at p after everything before it. sync/atomic has only the
// sequentially consistent store, an XCHG that waits until the line has come from
// the other core (100 to 150 ns); the posts of a batch shall overlap.
//
//go:noescape
func storeRelease(p *uint64, v uint64)

//go:build amd64 && !race

package shm

// prefetchWrite begins to fetch the line of p for writing, and does not wait for
// it. Processors without the instruction take it for a NOP.
//
//go:noescape
func prefetchWrite(p *uint64)

// prefetchRead begins to fetch the line of p and does not wait for it.
//
//go:noescape
func prefetchRead(p *uint64)

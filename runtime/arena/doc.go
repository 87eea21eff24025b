// Package arena supplies memory outside the Go heap: it has a stable address, so
// that a device may read and write it, and the garbage collector doesn't look at
// it. An Arena is one page-aligned slab.
//
// With the race detector slabs lie on the Go heap, still page-aligned, where the
// detector observes accesses.
//
// Invariants: a slab is zero at first; it must not be accessed after Close.
package arena

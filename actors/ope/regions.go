package ope

import (
	"unsafe"

	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/wire"
)

// inUse are the regions that an operation has in use, as many as a request can name.
type inUse struct {
	regions [wire.MaxIOV]*mr.Region
	n       int
}

// use keeps a region for the operation; false: it is being closed.
func (u *inUse) use(r *mr.Region) bool {
	if !r.Use() {
		return false
	}
	u.add(r)
	return true
}

func (u *inUse) add(r *mr.Region) {
	u.regions[u.n] = r
	u.n++
}

func (u *inUse) uses(r *mr.Region) bool {
	for _, x := range u.regions[:u.n] {
		if x == r {
			return true
		}
	}
	return false
}

// share keeps a region that is being closed, since the operation's buffer lies in
// it. False: it has as many as a request can name, as only accesses of a peer's can,
// which have no buffer of the application's.
func (u *inUse) share(r *mr.Region) bool {
	if u.n == len(u.regions) {
		return false
	}
	r.Share()
	u.add(r)
	return true
}

// doneWith lets go of the regions.
func (u *inUse) doneWith() {
	for _, r := range u.regions[:u.n] {
		r.Done()
	}
	*u = inUse{}
}

// Overlap reports whether two pieces of memory have a byte in common.
func Overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	x, y := base(a), base(b)
	return x < y+uintptr(len(b)) && y < x+uintptr(len(a))
}

// Holds reports whether part, which is not empty, lies in whole.
func Holds(whole, part []byte) bool {
	off := base(part) - base(whole)
	return len(part) > 0 && base(part) >= base(whole) && off < uintptr(len(whole)) && uintptr(len(part)) <= uintptr(len(whole))-off
}

// offsetIn is where part, a slice of whole, begins in it.
func offsetIn(whole, part []byte) uint64 { return uint64(base(part) - base(whole)) }

func base(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

package ope

import (
	"slices"
	"unsafe"

	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/wire"
)

// inUse are the regions that an operation has in use: as many as a request can name, and more
// if its own memory is in many pieces.
type inUse struct {
	regions [wire.MaxIOV]*mr.Region
	n       int
	beyond  []*mr.Region
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
	if u.n < len(u.regions) {
		u.regions[u.n] = r
	} else {
		u.beyond = append(u.beyond, r)
	}
	u.n++
}

// once is use for a region that may be in use already.
func (u *inUse) once(r *mr.Region) bool { return u.uses(r) || u.use(r) }

// holding is the region that all of b lies in; nil: none of those in use.
func (u *inUse) holding(b []byte) *mr.Region {
	for _, r := range u.regions[:min(u.n, len(u.regions))] {
		if Holds(r.Bytes(), b) {
			return r
		}
	}
	for _, r := range u.beyond {
		if Holds(r.Bytes(), b) {
			return r
		}
	}
	return nil
}

func (u *inUse) uses(r *mr.Region) bool {
	for _, x := range u.regions[:min(u.n, len(u.regions))] {
		if x == r {
			return true
		}
	}
	return slices.Contains(u.beyond, r)
}

// share keeps a region that is being closed, since the operation's memory lies in it.
func (u *inUse) share(r *mr.Region) {
	r.Share()
	u.add(r)
}

// doneWith lets go of the regions.
func (u *inUse) doneWith() {
	if u.n == 0 {
		return
	}
	for _, r := range u.regions[:min(u.n, len(u.regions))] {
		r.Done()
	}
	for _, r := range u.beyond {
		r.Done()
	}
	clear(u.beyond)
	*u = inUse{beyond: u.beyond[:0]}
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

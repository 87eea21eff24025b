package eratest

import "slices"

// span is the bytes lo to hi of a message.
type span struct{ lo, hi uint64 }

// spans is a set of byte ranges of a message: sorted and apart from each other. A
// message of several packets has a few only.
type spans []span

// add puts in n bytes from lo on. It returns false, and changes nothing, if some of
// them are in already.
func (s *spans) add(lo, n uint64) bool {
	if n == 0 {
		return true
	}
	hi := lo + n
	if hi < lo {
		return false
	}
	i, _ := slices.BinarySearchFunc(*s, lo, func(x span, lo uint64) int {
		if x.hi < lo {
			return -1
		}
		return 1
	})
	// All before i end before lo; i may end at lo.
	joinsLeft := i < len(*s) && (*s)[i].hi == lo
	next := i
	if joinsLeft {
		next++
	}
	if next < len(*s) && (*s)[next].lo < hi {
		return false
	}
	joinsRight := next < len(*s) && (*s)[next].lo == hi
	switch {
	case joinsLeft && joinsRight:
		(*s)[i].hi = (*s)[next].hi
		*s = slices.Delete(*s, next, next+1)
	case joinsLeft:
		(*s)[i].hi = hi
	case joinsRight:
		(*s)[next].lo = lo
	default:
		*s = slices.Insert(*s, i, span{lo, hi})
	}
	return true
}

// size is the number of bytes in the set.
func (s spans) size() (n uint64) {
	for _, x := range s {
		n += x.hi - x.lo
	}
	return n
}

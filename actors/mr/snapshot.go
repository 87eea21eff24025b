package mr

import (
	"cmp"
	"slices"
	"sort"
	"unsafe"
)

// snapshot is the regions of one moment. It never changes.
type snapshot struct {
	keys  []uint32  // sorted
	byKey []*Region // in the order of keys; of equal ones the oldest first

	byBase []*Region // by the address of the first byte
	spans  []span    // in the order of byBase
}

// span says where a region begins in our memory, and how far it and those before
// it reach. The numbers stay true as long as the region holds the memory.
type span struct {
	base     uintptr
	end      uintptr // the furthest of this region and those before
	furthest int32   // which of them that is
}

func newSnapshot(byKey, byBase []*Region) *snapshot {
	s := &snapshot{
		keys:   make([]uint32, len(byKey)),
		byKey:  byKey,
		byBase: byBase,
		spans:  make([]span, len(byBase)),
	}
	for i, r := range byKey {
		s.keys[i] = uint32(r.key)
	}
	best := span{}
	for i, r := range byBase {
		best.base = base(r.mem)
		if end := best.base + uintptr(len(r.mem)); i == 0 || end > best.end {
			best.end, best.furthest = end, int32(i)
		}
		s.spans[i] = best
	}
	return s
}

// key returns the oldest region with the key.
func (s *snapshot) key(key uint32) *Region {
	i, ok := slices.BinarySearch(s.keys, key)
	if !ok {
		return nil
	}
	return s.byKey[i]
}

// holding returns the region that reaches furthest of those that begin at p or
// before. If that does not hold all of p, none does.
func (s *snapshot) holding(p []byte) *Region {
	first := base(p)
	i := sort.Search(len(s.spans), func(i int) bool { return s.spans[i].base > first })
	if i == 0 {
		return nil
	}
	best := &s.spans[i-1]
	if best.end < first || uintptr(len(p)) > best.end-first {
		return nil
	}
	return s.byBase[best.furthest]
}

// base is the address of the first byte, to compare with others.
func base(p []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(p))) }

func compareKeys(a, b *Region) int { return cmp.Compare(uint32(a.key), uint32(b.key)) }

func compareBases(a, b *Region) int { return cmp.Compare(base(a.mem), base(b.mem)) }

// insert returns a sorted copy of list with r behind its equals.
func insert(list []*Region, r *Region, compare func(a, b *Region) int) []*Region {
	i := sort.Search(len(list), func(i int) bool { return compare(list[i], r) > 0 })
	out := make([]*Region, 0, len(list)+1)
	out = append(out, list[:i]...)
	out = append(out, r)
	return append(out, list[i:]...)
}

// without returns a copy of list without r.
func without(list []*Region, r *Region) []*Region {
	i := slices.Index(list, r)
	out := make([]*Region, 0, len(list)-1)
	out = append(out, list[:i]...)
	return append(out, list[i+1:]...)
}

package mr

import (
	"cmp"
	"slices"
	"sort"
	"unsafe"
)

// snapshot is the regions of one moment. It never changes.
type snapshot struct {
	keys  []pathKey // sorted
	byKey []keyed   // in the order of keys; of equal ones the oldest first

	byBase []*Region // by the address of the first byte
	spans  []span    // in the order of byBase
}

// keyed is a region by its key on one path.
type keyed struct {
	key pathKey
	r   *Region
}

// pathKey is a key of a device and the path that the device carries.
type pathKey struct {
	key  uint64
	path uint8
}

// onPath is the key that a peer names on a path. What the protocol says
// in it does not matter.
func onPath(path uint8, key uint64) pathKey { return pathKey{DeviceKey(key), path} }

func compareKeys(a, b pathKey) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.path, b.path))
}

// span says where a region begins in our memory, and how far it and those before
// it reach. The numbers stay true as long as the region holds the memory.
type span struct {
	base     uintptr
	end      uintptr // the furthest of this region and those before
	furthest int32   // which of them that is
}

func newSnapshot(byKey []keyed, byBase []*Region) *snapshot {
	s := &snapshot{
		keys:   make([]pathKey, len(byKey)),
		byKey:  byKey,
		byBase: byBase,
		spans:  make([]span, len(byBase)),
	}
	for i := range byKey {
		s.keys[i] = byKey[i].key
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

// key returns the oldest region with the key, which onPath made.
func (s *snapshot) key(key pathKey) *Region {
	i, ok := slices.BinarySearchFunc(s.keys, key, compareKeys)
	if !ok {
		return nil
	}
	return s.byKey[i].r
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

func compareBases(a, b *Region) int { return cmp.Compare(base(a.mem), base(b.mem)) }

// addKeys returns a sorted copy of list with r's keys, each behind its equals.
func addKeys(list []keyed, r *Region) []keyed {
	for path := range r.names {
		k := keyed{onPath(uint8(path), r.names[path].key), r}
		list = insert(list, k, func(a, b keyed) int { return compareKeys(a.key, b.key) })
	}
	return list
}

// withoutKeys returns a copy of list without r's keys.
func withoutKeys(list []keyed, r *Region) []keyed {
	return slices.DeleteFunc(slices.Clone(list), func(k keyed) bool { return k.r == r })
}

// insert returns a sorted copy of list with r behind its equals.
func insert[T any](list []T, r T, compare func(a, b T) int) []T {
	i := sort.Search(len(list), func(i int) bool { return compare(list[i], r) > 0 })
	out := make([]T, 0, len(list)+1)
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

package mr

import (
	"math"
	"unsafe"
)

// snapshot is the regions of one moment. It never changes.
type snapshot struct {
	byKey  *node // by key on each path
	byBase *node // by the address of the first byte
	n      int   // regions
}

// pathKey is a key of a device and the path that the device carries.
type pathKey struct {
	key  uint64
	path uint8
}

// onPath is the key that a peer names on a path. What the protocol says
// in it does not matter.
func onPath(path uint8, key uint64) pathKey { return pathKey{DeviceKey(key), path} }

// spot is where a region stands by the key.
func (k pathKey) spot(age uint64) spot { return spot{k.key, k.path, age} }

// key returns the oldest region with the key, which onPath made.
func (s *snapshot) key(key pathKey) *Region {
	at, r := s.byKey.find(key.spot(math.MaxUint64))
	if at.at != key.key || at.path != key.path {
		return nil
	}
	return r
}

// holding returns the region that reaches furthest of those that begin at p or
// before. If that does not hold all of p, none does.
func (s *snapshot) holding(p []byte) *Region {
	first := base(p)
	best := s.byBase.furthest(spot{at: uint64(first), age: math.MaxUint64})
	if best.r == nil || best.end < first || uintptr(len(p)) > best.end-first {
		return nil
	}
	return best.r
}

// with returns the snapshot with r.
func (s *snapshot) with(m *maker, r *Region) *snapshot {
	next := &snapshot{byKey: s.byKey, byBase: m.insert(s.byBase, r.baseSpot(), r), n: s.n + 1}
	for path := range r.names {
		next.byKey = m.insert(next.byKey, r.keySpot(path), r)
	}
	return next
}

// without returns the snapshot without r, s itself if r is not in it.
func (s *snapshot) without(m *maker, r *Region) *snapshot {
	if at, _ := s.byBase.find(r.baseSpot()); at != r.baseSpot() || s.n == 0 {
		return s
	}
	next := &snapshot{byKey: s.byKey, byBase: m.remove(s.byBase, r.baseSpot()), n: s.n - 1}
	for path := range r.names {
		next.byKey = m.remove(next.byKey, r.keySpot(path))
	}
	return next
}

func (r *Region) baseSpot() spot { return spot{at: uint64(base(r.mem)), age: r.age} }

func (r *Region) keySpot(path int) spot {
	return onPath(uint8(path), r.names[path].key).spot(r.age)
}

// base is the address of the first byte, to compare with others.
func base(p []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(p))) }

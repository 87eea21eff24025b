package mr

import (
	"cmp"
	"slices"
	"sort"
)

// fanout is the most entries of a node. A change copies the nodes on one way from the root to
// a leaf, so what it costs grows with the logarithm of the number of regions.
const fanout = 64

// spot is where a region stands in a tree: by a number, and newer ones before older ones with
// the same number.
type spot struct {
	at   uint64 // a key, or the address of the first byte
	path uint8
	age  uint64 // grows from the newest region to the oldest
}

func compareSpots(a, b spot) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.path, b.path), cmp.Compare(a.age, b.age))
}

// reach says how far a region reaches in our memory. The numbers stay true as long as the
// region holds the memory.
type reach struct {
	end uintptr
	r   *Region
}

// node is part of a sorted tree of regions. It never changes: who changes a tree makes new
// nodes, and the others are shared by the old tree and the new one. nil is the empty tree.
type node struct {
	spots []spot // of the regions of a leaf; the first one of each of kids
	kids  []*node
	regs  []*Region // of a leaf
	far   []reach   // the furthest of the regions up to that entry
}

// maker makes nodes. It counts the entries that it writes.
type maker struct{ copied int }

func (m *maker) leaf(spots []spot, regs []*Region) *node {
	n := &node{spots: spots, regs: regs, far: make([]reach, len(regs))}
	m.copied += len(regs)
	var best reach
	for i, r := range regs {
		if end := base(r.mem) + uintptr(len(r.mem)); best.r == nil || end > best.end {
			best = reach{end, r}
		}
		n.far[i] = best
	}
	return n
}

func (m *maker) inner(kids []*node) *node {
	n := &node{spots: make([]spot, len(kids)), kids: kids, far: make([]reach, len(kids))}
	m.copied += len(kids)
	var best reach
	for i, k := range kids {
		n.spots[i] = k.spots[0]
		if last := k.far[len(k.far)-1]; best.r == nil || last.end > best.end {
			best = last
		}
		n.far[i] = best
	}
	return n
}

// floor is the last entry at s or before, -1 if there is none.
func (n *node) floor(s spot) int {
	return sort.Search(len(n.spots), func(i int) bool { return compareSpots(n.spots[i], s) > 0 }) - 1
}

// insert returns the tree n with r at s.
func (m *maker) insert(n *node, s spot, r *Region) *node {
	if n == nil {
		return m.leaf([]spot{s}, []*Region{r})
	}
	parts := m.into(n, s, r)
	if len(parts) == 1 {
		return parts[0]
	}
	return m.inner(parts)
}

// into returns the one or two nodes that n becomes with r.
func (m *maker) into(n *node, s spot, r *Region) []*node {
	if n.kids == nil {
		at := n.floor(s) + 1
		spots, regs := slices.Insert(slices.Clone(n.spots), at, s), slices.Insert(slices.Clone(n.regs), at, r)
		return m.leaves(spots, regs)
	}
	at := max(n.floor(s), 0)
	return m.inners(slices.Replace(slices.Clone(n.kids), at, at+1, m.into(n.kids[at], s, r)...))
}

func (m *maker) leaves(spots []spot, regs []*Region) []*node {
	if len(regs) <= fanout {
		return []*node{m.leaf(spots, regs)}
	}
	half := len(regs) / 2
	return []*node{m.leaf(slices.Clip(spots[:half]), slices.Clip(regs[:half])), m.leaf(spots[half:], regs[half:])}
}

func (m *maker) inners(kids []*node) []*node {
	if len(kids) <= fanout {
		return []*node{m.inner(kids)}
	}
	half := len(kids) / 2
	return []*node{m.inner(slices.Clip(kids[:half])), m.inner(kids[half:])}
}

// remove returns the tree n without what is at s; n itself if there is nothing.
func (m *maker) remove(n *node, s spot) *node {
	if n == nil {
		return nil
	}
	n = m.out(n, s)
	for n != nil && len(n.kids) == 1 {
		n = n.kids[0]
	}
	return n
}

// out returns n without what is at s, nil if nothing is left.
func (m *maker) out(n *node, s spot) *node {
	at := n.floor(s)
	if at < 0 {
		return n
	}
	if n.kids == nil {
		switch {
		case n.spots[at] != s:
			return n
		case len(n.regs) == 1:
			return nil
		}
		return m.leaf(slices.Delete(slices.Clone(n.spots), at, at+1), slices.Delete(slices.Clone(n.regs), at, at+1))
	}
	kid := m.out(n.kids[at], s)
	if kid == n.kids[at] {
		return n
	}
	kids := slices.Clone(n.kids)
	if kid == nil {
		kids = slices.Delete(kids, at, at+1)
	} else {
		kids[at] = kid
		kids = m.merge(kids, at)
	}
	if len(kids) == 0 {
		return nil
	}
	return m.inner(kids)
}

// merge joins the node at a place with one of its neighbors if both fit half a node, so that
// a tree that has shrunk is no higher than it need be.
func (m *maker) merge(kids []*node, at int) []*node {
	for i := max(at-1, 0); i < at+1 && i+1 < len(kids); i++ {
		a, b := kids[i], kids[i+1]
		if len(a.spots)+len(b.spots) > fanout/2 {
			continue
		}
		var one *node
		if a.kids == nil {
			one = m.leaf(slices.Concat(a.spots, b.spots), slices.Concat(a.regs, b.regs))
		} else {
			one = m.inner(slices.Concat(a.kids, b.kids))
		}
		kids[i] = one
		return slices.Delete(kids, i+1, i+2)
	}
	return kids
}

// find returns the last region at s or before, and its place.
func (n *node) find(s spot) (spot, *Region) {
	for n != nil {
		i := n.floor(s)
		if i < 0 {
			return spot{}, nil
		}
		if n.kids == nil {
			return n.spots[i], n.regs[i]
		}
		n = n.kids[i]
	}
	return spot{}, nil
}

// furthest is the region that reaches furthest of those at s or before.
func (n *node) furthest(s spot) reach {
	var best reach
	for n != nil {
		i := n.floor(s)
		if i < 0 {
			break
		}
		whole := i - 1 // the last entry all of which lies before s
		if n.kids == nil {
			whole = i
		}
		if whole >= 0 && (best.r == nil || n.far[whole].end > best.end) {
			best = n.far[whole]
		}
		if n.kids == nil {
			break
		}
		n = n.kids[i]
	}
	return best
}

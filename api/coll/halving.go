package coll

import "math/bits"

// halving is the part of the ranks that recursive halving and doubling work with:
// a power of two. If there are more ranks, the first ones work in pairs: the even
// ones give what they have to their odd neighbour, and have nothing to do.
type halving struct {
	ranks int // the power of two
	rank  int // ours among them; -1: we gave what we had
	extra int // pairs
	parts layout
}

func (x *call) halving() halving {
	p := len(x.peers)
	h := halving{ranks: 1 << (bits.Len(uint(p)) - 1)}
	h.extra = p - h.ranks
	switch {
	case x.rank >= 2*h.extra:
		h.rank = x.rank - h.extra
	case x.rank%2 == 1:
		h.rank = x.rank / 2
	default:
		h.rank = -1
	}
	return h
}

// cut makes the parts equal.
func (h *halving) cut(x *call) { h.parts = even(len(x.in)/x.lay.elem, h.ranks, x.lay.elem) }

// absolute is the rank in the group of the n-th.
func (h *halving) absolute(n int) int {
	if n < h.extra {
		return 2*n + 1
	}
	return n + h.extra
}

// fold does the beginning: the sum of our pair, or our own data if we have no
// partner, is in acc afterwards, or still in src if still is true. Steps 0.
func (h *halving) fold(x *call, acc, src []byte) (still []byte, err error) {
	switch {
	case x.rank >= 2*h.extra:
		return src, nil
	case h.rank < 0:
		return src, x.send(x.rank+1, 0, src)
	default:
		return acc, x.combine(x.rank-1, acc, src, true, 0)
	}
}

// unfold does the end: a rank that works for two gives the result to the other.
func (h *halving) unfold(x *call, b []byte, step int) error {
	switch {
	case x.rank >= 2*h.extra:
		return nil
	case h.rank < 0:
		return x.recv(x.rank+1, step, b)
	default:
		return x.send(x.rank-1, step, b)
	}
}

// reduceScatter leaves in acc, in the part of our number, the reduction of all src.
// In each round half of the rest goes to a partner, which sends the other half.
func (h *halving) reduceScatter(x *call, acc, src []byte) error {
	src, err := h.fold(x, acc, src)
	if err != nil || h.rank < 0 {
		return err
	}
	if h.ranks == 1 {
		move(acc, src)
		return nil
	}
	from, to := 0, h.ranks // the parts left
	for step := 1; to-from > 1; step++ {
		half := (to - from) / 2
		peer := h.rank ^ half
		mine, other := [2]int{from, from + half}, [2]int{from + half, to}
		if h.rank&half != 0 {
			mine, other = other, mine
		}
		keep := h.parts.blocks(acc, mine[0], mine[1])
		err := x.exchangeCombine(h.absolute(peer), h.parts.blocks(src, other[0], other[1]),
			h.absolute(peer), keep, h.parts.blocks(src, mine[0], mine[1]), peer < h.rank, step)
		if err != nil {
			return err
		}
		src = acc
		from, to = mine[0], mine[1]
	}
	return nil
}

// allgather is the reverse: in each round partners give each other all that they
// have.
func (h *halving) allgather(x *call, b []byte, step int) error {
	if h.rank < 0 {
		return nil
	}
	for n := 1; n < h.ranks; n, step = 2*n, step+1 {
		peer := h.rank ^ n
		mine, other := h.rank&^(n-1), peer&^(n-1)
		at := h.absolute(peer)
		if err := x.exchange(at, h.parts.blocks(b, mine, mine+n), at, h.parts.blocks(b, other, other+n), step); err != nil {
			return err
		}
	}
	return nil
}

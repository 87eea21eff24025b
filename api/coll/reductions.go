package coll

import (
	"math/bits"
)

// reduceBinomial: each rank combines what comes from its subtree and passes it on to
// its parent. In order, the tree is that of rank 0, which then hands the result to
// the root.
func (x *call) reduceBinomial() error {
	p, root := len(x.peers), x.root
	if x.set.ordered {
		root = 0
	}
	v := (x.rank - root + p) % p
	acc, src := x.out, x.in // src is where our share is as long as acc has nothing
	if x.rank != x.root {
		acc = nil
	}
	for mask, step := 1, 0; mask < p; mask, step = 2*mask, step+1 {
		if v&mask != 0 {
			if err := x.send((v-mask+root)%p, step, src); err != nil {
				return err
			}
			break
		}
		if v+mask < p {
			if acc == nil {
				acc = x.temps.get(len(x.in))
			}
			if err := x.combine((v+mask+root)%p, acc, src, false, step); err != nil {
				return err
			}
			src = acc
		}
	}
	const last = 64 // more than there are rounds
	switch {
	case root == x.root:
		if v == 0 {
			move(x.out, src)
		}
	case x.rank == root:
		return x.send(x.root, last, src)
	case x.rank == x.root:
		return x.recv(root, last, x.out)
	}
	return nil
}

// reduceRabenseifner: a reduce-scatter by recursive halving, then root gathers the
// parts. No rank combines more than the buffer once, for any p.
func (x *call) reduceRabenseifner() error {
	acc := x.out
	if x.rank != x.root {
		acc = x.temps.get(len(x.in))
	}
	h := x.halving()
	h.cut(x)
	if err := h.reduceScatter(x, acc, x.in); err != nil {
		return err
	}
	const step = 100
	if x.rank != x.root {
		if h.rank < 0 {
			return nil
		}
		return x.send(x.root, step, h.parts.block(acc, h.rank))
	}
	for n := range h.ranks {
		if n == h.rank {
			continue
		}
		if err := x.recv(h.absolute(n), step, h.parts.block(acc, n)); err != nil {
			return err
		}
	}
	return nil
}

// allreduceDoubling: pairs of ranks at distance 1, 2, 4... exchange all that they
// have and combine it: log p rounds, the whole buffer in each. Neighbours have
// neighbouring ranks in theirs, so the order is kept.
func (x *call) allreduceDoubling() error {
	if ranks := len(x.peers); ranks&(ranks-1) == 0 {
		return x.doubling(x.in, &halving{ranks: ranks, rank: x.rank})
	}
	h := x.halving()
	src, err := h.fold(x, x.out, x.in)
	if err == nil && h.rank >= 0 {
		err = x.doubling(src, &h)
	}
	if err != nil {
		return err
	}
	return h.unfold(x, x.out, 100)
}

// doubling leaves in out what the ranks of h bring, this one src.
func (x *call) doubling(src []byte, h *halving) error {
	for mask, step := 1, 1; mask < h.ranks; mask, step = 2*mask, step+1 {
		peer := h.rank ^ mask
		at := h.absolute(peer)
		if err := x.exchangeCombine(at, src, at, x.out, src, peer < h.rank, step); err != nil {
			return err
		}
		src = x.out
	}
	move(x.out, src)
	return nil
}

// allreduceRabenseifner: recursive halving until each rank has a part of the result,
// then recursive doubling until all have all. Each byte is sent twice, in 2 log p
// rounds.
func (x *call) allreduceRabenseifner() error {
	h := x.halving()
	h.cut(x)
	if err := h.reduceScatter(x, x.out, x.in); err != nil {
		return err
	}
	if err := h.allgather(x, x.out, 50); err != nil {
		return err
	}
	return h.unfold(x, x.out, 100)
}

// allreduceRing: parts travel around the ring, and each rank combines its own with
// what passes; then the results travel once around. Each byte is sent twice, in
// 2(p-1) rounds, always to the same neighbour.
func (x *call) allreduceRing() error {
	p := len(x.peers)
	parts := even(len(x.in)/x.lay.elem, p, x.lay.elem)
	right, left := (x.rank+1)%p, (x.rank-1+p)%p
	src := x.in // to send in the first round
	for k := range p - 1 {
		// The last part to come is our own, the one that ring begins with.
		mine, next := (x.rank-k-1+p)%p, (x.rank-k-2+2*p)%p
		err := x.exchangeCombine(right, parts.block(src, mine), left, parts.block(x.out, next), parts.block(x.in, next), true, k)
		if err != nil {
			return err
		}
		src = x.out
	}
	if p == 1 {
		move(x.out, x.in)
	}
	return x.ring(&parts, x.out, p)
}

// reduceScatterPairwise: in each of p-1 rounds a rank sends another one its part,
// and combines what comes for itself. Each byte is sent once, to where it belongs.
func (x *call) reduceScatterPairwise() error {
	p := len(x.peers)
	acc, src := x.apartFromIn(), x.lay.block(x.in, x.rank)
	for k := 1; k < p; k++ {
		to, from := (x.rank+k)%p, (x.rank-k+p)%p
		if err := x.exchangeCombine(to, x.lay.block(x.in, to), from, acc, src, true, k); err != nil {
			return err
		}
		src = acc
	}
	move(x.out, src)
	return nil
}

// apartFromIn is out, or a temporary buffer if out overlaps data that is yet to be
// sent.
func (x *call) apartFromIn() []byte {
	if overlap(x.in, x.out) {
		return x.temps.get(len(x.out))
	}
	return x.out
}

// reduceScatterRing: parts travel around the ring, and each rank combines its own
// with those that pass, until they are where they belong.
func (x *call) reduceScatterRing() error {
	p := len(x.peers)
	if p == 1 {
		move(x.out, x.in)
		return nil
	}
	right, left := (x.rank+1)%p, (x.rank-1+p)%p
	most := x.lay.largest(p)
	come, gone := x.temps.get(most), x.temps.get(most)
	sending := x.lay.block(x.in, left)
	for k := range p - 1 {
		next := (x.rank - k - 2 + 2*p) % p
		acc := come[:x.lay.size(next)]
		if err := x.exchangeCombine(right, sending, left, acc, x.lay.block(x.in, next), true, k); err != nil {
			return err
		}
		sending = acc
		come, gone = gone, come
	}
	copy(x.out, sending)
	return nil
}

// reduceScatterHalving is recursive halving: log p rounds, half as much in each. For
// powers of two.
func (x *call) reduceScatterHalving() error {
	h := x.halving()
	h.parts = x.lay
	acc := x.temps.get(len(x.in))
	if err := h.reduceScatter(x, acc, x.in); err != nil {
		return err
	}
	copy(x.out, x.lay.block(acc, x.rank))
	return nil
}

// reduceThenScatter keeps the order of the ranks: all is combined on rank 0, which
// then deals it out.
func (x *call) reduceThenScatter() error {
	in, out := x.in, x.out
	x.root = 0
	if x.rank == 0 {
		x.out = x.temps.get(len(in))
	}
	if err := x.reduceBinomial(); err != nil {
		return err
	}
	const step = 100
	if x.rank != 0 {
		return x.recv(0, step, out)
	}
	for r := 1; r < len(x.peers); r++ {
		if err := x.send(r, step, x.lay.block(x.out, r)); err != nil {
			return err
		}
	}
	copy(out, x.lay.block(x.out, 0))
	return nil
}

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

// scanDoubling: in round k a rank exchanges the reduction of a group of 2^k ranks
// with one of the neighbouring group; that of lower ranks goes into the result,
// too. What is of lower ranks is always in, so the order is kept.
func (x *call) scanDoubling() error {
	n := len(x.in)
	exclusive := x.kind == kindExscan
	sum := x.temps.get(n) // of the group
	copy(sum, x.in)
	empty := exclusive // nothing is in out yet
	if !exclusive {
		move(x.out, x.in)
	}
	came := x.temps.get(n)
	for mask, step := 1, 0; mask < len(x.peers); mask, step = 2*mask, step+1 {
		peer := x.rank ^ mask
		if peer >= len(x.peers) {
			continue
		}
		if err := x.exchange(peer, sum, peer, came, step); err != nil {
			return err
		}
		if peer > x.rank {
			x.op.combine(sum, came)
			sum, came = came, sum
			continue
		}
		if empty {
			copy(x.out, came)
			empty = false
		} else {
			x.op.combine(came, x.out)
		}
		x.op.combine(came, sum)
	}
	return nil
}

// scanLinear: a chain: each rank adds its own data to that of the one before and
// passes it on, segment after segment.
func (x *call) scanLinear() error {
	p, n, seg := len(x.peers), len(x.in), x.segment()
	exclusive := x.kind == kindExscan
	if x.rank == 0 && !exclusive {
		move(x.out, x.in)
	}
	pass := x.temps.get(min(n, seg)) // what goes to the next rank
	for at, step := 0, 0; at < n || step == 0; at, step = at+seg, step+1 {
		end := min(at+seg, n)
		in, out := x.in[at:end], x.out[at:end]
		give := pass[:end-at]
		copy(give, in)
		if x.rank > 0 {
			came := x.temps.get(end - at)
			if err := x.recv(x.rank-1, step, came); err != nil {
				return err
			}
			if exclusive {
				copy(out, came)
			}
			x.op.combine(came, give)
			if !exclusive {
				copy(out, give)
			}
			x.temps.put(came)
		}
		if x.rank+1 < p {
			if err := x.send(x.rank+1, step, give); err != nil {
				return err
			}
		}
	}
	return nil
}

package coll

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

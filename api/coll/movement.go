package coll

// dissemination: in round k each rank informs the one 2^k after it that it, and all
// that have informed it, are here. After log p rounds each rank knows of all.
func (x *call) dissemination() error {
	p := len(x.peers)
	for k, step := 1, 0; k < p; k, step = 2*k, step+1 {
		if err := x.exchange((x.rank+k)%p, nil, (x.rank-k+p)%p, nil, step); err != nil {
			return err
		}
	}
	return nil
}

// relative is the rank's distance from the root, by which trees are built.
func (x *call) relative() int {
	return (x.rank - x.root + len(x.peers)) % len(x.peers)
}

// absolute is the rank at a distance from the root.
func (x *call) absolute(v int) int { return (v + x.root) % len(x.peers) }

// bcastBinomial: in each round every rank that has the data passes it on to one that
// has not: log p rounds, the whole buffer in each.
func (x *call) bcastBinomial() error {
	p, v := len(x.peers), x.relative()
	mask := 1
	for ; mask < p; mask *= 2 {
		if v&mask != 0 {
			if err := x.recv(x.absolute(v-mask), 0, x.out); err != nil {
				return err
			}
			break
		}
	}
	for mask /= 2; mask > 0; mask /= 2 {
		if v+mask < p {
			if err := x.send(x.absolute(v+mask), 0, x.in); err != nil {
				return err
			}
		}
	}
	return nil
}

// bcastScatterAllgather (van de Geijn): root scatters parts down a binomial tree,
// then all gather them around a ring. Each byte is sent about twice by each rank,
// however many ranks there are.
func (x *call) bcastScatterAllgather() error {
	p, v := len(x.peers), x.relative()
	parts := even(len(x.out)/x.lay.elem, p, x.lay.elem)
	mask := 1
	for ; mask < p; mask *= 2 {
		if v&mask != 0 {
			if err := x.recv(x.absolute(v-mask), 0, parts.blocks(x.out, v, min(v+mask, p))); err != nil {
				return err
			}
			break
		}
	}
	for mask /= 2; mask > 0; mask /= 2 {
		if v+mask < p {
			if err := x.send(x.absolute(v+mask), 0, parts.blocks(x.out, v+mask, min(v+2*mask, p))); err != nil {
				return err
			}
		}
	}
	right, left := x.absolute(v+1), x.absolute(v+p-1)
	for k := range p - 1 {
		mine, next := (v-k+p)%p, (v-k-1+p)%p
		if err := x.exchange(right, parts.block(x.out, mine), left, parts.block(x.out, next), 1+k); err != nil {
			return err
		}
	}
	return nil
}

// bcastPipeline: a chain of all ranks, along which segments follow each other.
func (x *call) bcastPipeline() error {
	p, v := len(x.peers), x.relative()
	to, from := -1, -1
	if v+1 < p {
		to = x.absolute(v + 1)
	}
	if v > 0 {
		from = x.absolute(v - 1)
	}
	n, seg := len(x.out), x.segment()
	var ready []byte // the segment to pass on
	for at, step := 0, 0; ; step++ {
		// This segment comes in while the one before it goes out.
		next := x.out[at:min(at+seg, n)]
		sending, receiving := to, from
		if step == 0 {
			sending = -1
		}
		if at == n && step > 0 {
			receiving = -1
		}
		if sending >= 0 || receiving >= 0 {
			// All have step 0: their order distinguishes them.
			if err := x.exchange(sending, ready, receiving, next, 0); err != nil {
				return err
			}
		}
		if at == n && step > 0 {
			return nil
		}
		ready = next
		at += len(next)
	}
}

// gatherLinear: all send to root.
func (x *call) gatherLinear() error {
	if x.rank != x.root {
		return x.send(x.root, 0, x.in)
	}
	move(x.lay.block(x.out, x.rank), x.in)
	for k := 1; k < len(x.peers); k++ {
		r := x.absolute(k)
		if err := x.recv(r, 0, x.lay.block(x.out, r)); err != nil {
			return err
		}
	}
	return nil
}

// gatherBinomial: each rank collects the parts of its subtree, twice as many in
// each round, and passes them on.
func (x *call) gatherBinomial() error {
	p, v, n := len(x.peers), x.relative(), len(x.in)
	mine := subtree(v, p)
	if mine == 1 { // a leaf
		return x.passUp(v, x.in)
	}
	all := x.out // by distance from root, this rank first
	if x.root != 0 || v != 0 {
		all = x.temps.get(n * mine)
	}
	move(all[:n], x.in)
	for mask := 1; mask < mine; mask *= 2 {
		k := min(mask, mine-mask)
		if err := x.recv(x.absolute(v+mask), 0, all[n*mask:n*(mask+k)]); err != nil {
			return err
		}
	}
	if v != 0 {
		return x.passUp(v, all)
	}
	if x.root != 0 { // turn it into the order of the ranks
		copy(x.out[n*x.root:], all[:n*(p-x.root)])
		copy(x.out[:n*x.root], all[n*(p-x.root):])
	}
	return nil
}

// subtree is how many ranks a binomial tree has below and at distance v from root.
func subtree(v, p int) int {
	if v == 0 {
		return p
	}
	return min(v&-v, p-v)
}

// passUp sends to the parent in the binomial tree.
func (x *call) passUp(v int, b []byte) error {
	if v == 0 {
		move(x.out, b)
		return nil
	}
	return x.send(x.absolute(v&(v-1)), 0, b)
}

// scatterLinear: root sends to all.
func (x *call) scatterLinear() error {
	if x.rank != x.root {
		return x.recv(x.root, 0, x.out)
	}
	for k := 1; k < len(x.peers); k++ {
		r := x.absolute(k)
		if err := x.send(r, 0, x.lay.block(x.in, r)); err != nil {
			return err
		}
	}
	move(x.out, x.lay.block(x.in, x.rank))
	return nil
}

// scatterBinomial: each rank passes to others the half of its data that is for
// their subtrees.
func (x *call) scatterBinomial() error {
	p, v, n := len(x.peers), x.relative(), len(x.out)
	mine := subtree(v, p)
	all := x.in // by distance from root, this rank first
	switch {
	case v == 0 && x.root != 0:
		all = x.temps.get(n * p)
		copy(all, x.in[n*x.root:])
		copy(all[n*(p-x.root):], x.in[:n*x.root])
	case v != 0 && mine == 1:
		return x.recv(x.absolute(v&(v-1)), 0, x.out)
	case v != 0:
		all = x.temps.get(n * mine)
		if err := x.recv(x.absolute(v&(v-1)), 0, all); err != nil {
			return err
		}
	}
	mask := 1
	for mask < mine {
		mask *= 2
	}
	for mask /= 2; mask > 0; mask /= 2 {
		k := min(mask, mine-mask)
		if err := x.send(x.absolute(v+mask), 0, all[n*mask:n*(mask+k)]); err != nil {
			return err
		}
	}
	move(x.out, all[:n])
	return nil
}

// allgatherRing: in each of p-1 rounds a rank passes on to its right what came from
// its left in the round before.
func (x *call) allgatherRing() error {
	move(x.lay.block(x.out, x.rank), x.in)
	return x.ring(&x.lay, x.out, 0)
}

// ring gathers blocks of which each rank has its own.
func (x *call) ring(l *layout, b []byte, step int) error {
	p := len(x.peers)
	right, left := (x.rank+1)%p, (x.rank-1+p)%p
	for k := range p - 1 {
		mine, next := (x.rank-k+p)%p, (x.rank-k-1+p)%p
		if err := x.exchange(right, l.block(b, mine), left, l.block(b, next), step+k); err != nil {
			return err
		}
	}
	return nil
}

// allgatherDoubling: pairs of ranks at distance 1, 2, 4... give each other all that
// they have. For powers of two.
func (x *call) allgatherDoubling() error {
	move(x.lay.block(x.out, x.rank), x.in)
	for mask, step := 1, 0; mask < len(x.peers); mask, step = 2*mask, step+1 {
		peer := x.rank ^ mask
		mine, other := x.rank&^(mask-1), peer&^(mask-1)
		err := x.exchange(peer, x.lay.blocks(x.out, mine, mine+mask), peer, x.lay.blocks(x.out, other, other+mask), step)
		if err != nil {
			return err
		}
	}
	return nil
}

// allgatherBruck: in round k a rank has the blocks of 2^k ranks from its own on, and
// gets those that follow. Log p rounds for any p; at the end all must be turned into
// the order of the ranks.
func (x *call) allgatherBruck() error {
	p := len(x.peers)
	all := x.temps.get(len(x.out)) // by distance from this rank
	at := copy(all, x.in)
	for k, step := 1, 0; k < p; k, step = 2*k, step+1 {
		n := min(k, p-k)
		give, get := x.stretch(x.rank, n), x.stretch(x.rank+k, n)
		err := x.exchange((x.rank-k+p)%p, all[:give], (x.rank+k)%p, all[at:at+get], step)
		if err != nil {
			return err
		}
		at += get
	}
	tail := x.stretch(x.rank, p-x.rank)
	copy(x.out[x.lay.from(x.rank):], all[:tail])
	copy(x.out, all[tail:])
	return nil
}

// stretch is the bytes of n blocks from that of rank r on, around the end.
func (x *call) stretch(r, n int) int {
	p := len(x.peers)
	if r %= p; r+n <= p {
		return x.lay.from(r+n) - x.lay.from(r)
	}
	return x.lay.from(p) - x.lay.from(r) + x.lay.from(r+n-p)
}

// alltoallPairwise: in each of p rounds pairs of ranks exchange their parts. In
// place, a received part replaces the one sent.
func (x *call) alltoallPairwise() error {
	p := len(x.peers)
	inPlace := same(x.in, x.out)
	for k := range p {
		peer := (k - x.rank + p) % p
		give, get := x.lay.block(x.in, peer), x.recvs.block(x.out, peer)
		if peer == x.rank {
			move(get, give)
			continue
		}
		into := get
		if inPlace {
			into = x.temps.get(len(get))
		}
		if err := x.exchange(peer, give, peer, into, k); err != nil {
			return err
		}
		if inPlace {
			copy(get, into)
			x.temps.put(into)
		}
	}
	return nil
}

// alltoallBruck: a part travels the distance to its receiver in hops of 2^k, with
// all others that have this bit in their distance. Log p rounds, in each half of
// everything: for short parts.
func (x *call) alltoallBruck() error {
	p, n := len(x.peers), x.lay.size(0)
	all := x.temps.get(n * p)
	copy(all, x.in[n*x.rank:])
	copy(all[n*(p-x.rank):], x.in[:n*x.rank])
	half := (p + 1) / 2 * n
	out, in := x.temps.get(half), x.temps.get(half)
	for k, step := 1, 0; k < p; k, step = 2*k, step+1 {
		at := 0
		for i := k; i < p; i = (i + 1) | k {
			at += copy(out[at:], all[n*i:n*(i+1)])
		}
		if err := x.exchange((x.rank+k)%p, out[:at], (x.rank-k+p)%p, in[:at], step); err != nil {
			return err
		}
		at = 0
		for i := k; i < p; i = (i + 1) | k {
			at += copy(all[n*i:n*(i+1)], in[at:])
		}
	}
	for i := range p {
		r := (x.rank - i + p) % p
		copy(x.out[n*r:], all[n*i:n*(i+1)])
	}
	return nil
}

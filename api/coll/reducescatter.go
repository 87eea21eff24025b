package coll

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

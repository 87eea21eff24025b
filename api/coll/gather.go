package coll

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

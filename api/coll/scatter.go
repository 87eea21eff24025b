package coll

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

package coll

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

package coll

// scanDoubling: in round k a rank exchanges the reduction of a group of 2^k ranks
// with one of the neighbouring group; that of lower ranks goes into the result,
// too.
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
			x.merge(came, sum, sum, false)
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

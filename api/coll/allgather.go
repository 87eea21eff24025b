package coll

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

package coll

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

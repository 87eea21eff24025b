package coll

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

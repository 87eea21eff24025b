package coll

// dissemination: in round k each rank tells the one 2^k after it that it, and all
// that it has heard of, are here. After log p rounds all have heard of all.
func dissemination(x *call) error {
	p := len(x.peers)
	for k, step := 1, 0; k < p; k, step = 2*k, step+1 {
		if err := x.exchange((x.rank+k)%p, nil, (x.rank-k+p)%p, nil, step); err != nil {
			return err
		}
	}
	return nil
}

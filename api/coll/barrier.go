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

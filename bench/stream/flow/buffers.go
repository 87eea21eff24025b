package flow

import (
	"bytes"
	"errors"

	"github.com/efactor/efactor/api/efa"
)

// buffers makes those of both directions, of which this side may have only one: what is
// sent has a pattern in it, what is received nothing.
func (r *run) buffers() (out, in [][]byte, free func() error, err error) {
	var regions []*efa.MemoryRegion
	free = func() (err error) {
		for _, m := range regions {
			err = errors.Join(err, m.Close())
		}
		return err
	}
	get := func() ([]byte, error) {
		if !r.Alloc || r.Size == 0 {
			return make([]byte, r.Size), nil
		}
		m, err := r.Domain.Alloc(r.Size, 0)
		if err != nil {
			return nil, err
		}
		regions = append(regions, m)
		return m.Bytes(), nil
	}
	for range r.Buffers {
		for _, side := range []struct {
			does bool
			list *[][]byte
		}{{r.send, &out}, {r.recv, &in}} {
			if !side.does {
				continue
			}
			b, err := get()
			if err != nil {
				return nil, nil, nil, errors.Join(err, free())
			}
			*side.list = append(*side.list, b)
		}
	}
	for _, b := range out {
		fill(b)
	}
	return out, in, free, nil
}

// fill writes the pattern, as the other programs do: byte i is 7i+1.
func fill(b []byte) {
	for i := range b {
		b[i] = byte(7*i + 1)
	}
}

// result sums up: rank 0 has the peer's time from the last answer.
func (r *run) result(in [][]byte) *Result {
	res := &Result{Count: r.Count}
	if r.send {
		res.Nanos = append(res.Nanos, r.theirs)
	}
	if r.recv {
		res.Nanos = append(res.Nanos, int64(r.ended.Sub(r.began)))
	}
	want := make([]byte, r.Size)
	fill(want)
	for _, b := range in {
		if !bytes.Equal(b, want) {
			res.Wrong++
		}
	}
	return res
}

package nic

import "github.com/efactor/efactor/actors/device"

// MaxPieces is device.Info's of software devices. They copy a packet anyway, so that
// there could be any number; this one is more than any protocol has use for.
const MaxPieces = 16

// checkPieces is PostSend's look at a request with More.
func (c *Config) checkPieces(wr *device.SendWR) error {
	switch {
	case wr.Kind != device.WRSend, wr.Pieces() > MaxPieces:
		return device.ErrNotSupported
	case wr.Len() > c.MTU:
		return device.ErrTooLong
	}
	return nil
}

// gather makes the pieces of wr one, in memory of request i, and returns the request that
// the carrier gets.
func (q *QP) gather(i uint32, wr *device.SendWR) *device.SendWR {
	r := &q.reqs[i]
	r.own = q.buffer()
	r.wr = *wr
	r.wr.Header, r.wr.Payload, r.wr.More = r.own[:wr.Gather(r.own)], nil, nil
	return &r.wr
}

// buffer is one of MTU bytes.
func (q *QP) buffer() []byte {
	if n := len(q.spare); n > 0 {
		b := q.spare[n-1]
		q.spare = q.spare[:n-1]
		return b
	}
	return make([]byte, q.cfg.MTU)
}

// dropOwn gives a request's memory back.
func (q *QP) dropOwn(r *request) {
	if r.own != nil {
		q.spare = append(q.spare, r.own)
		r.own = nil
	}
}

package nic

import "github.com/efactor/efactor/actors/device"

// PlainLender lends memory that is in no region, see device.QP's LendPlain.
type PlainLender interface {
	LendPlain(to Source, mem []byte) (rkey, addr uint64, err error)
	Relend(rkey uint64, mem []byte) error
}

// LendPlain implements device.QP.
func (q *QP) LendPlain(ah device.AH, qpn uint16, mem []byte) (rkey, addr uint64, err error) {
	switch {
	case q.cfg.Plain == nil:
		return 0, 0, device.ErrNotSupported
	case q.over:
		return 0, 0, device.ErrClosed
	case !q.ahs.valid(ah):
		return 0, 0, device.ErrBadAH
	}
	return q.cfg.Plain.LendPlain(Source{GID: q.ahs.entries[ah].gid, QPN: qpn}, mem)
}

// Relend implements device.QP.
func (q *QP) Relend(_ uint8, rkey uint64, mem []byte) error {
	if q.cfg.Plain == nil {
		return device.ErrNotSupported
	}
	return q.cfg.Plain.Relend(rkey, mem)
}

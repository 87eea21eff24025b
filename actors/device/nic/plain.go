package nic

import "github.com/efactor/efactor/actors/device"

// PlainLender lends memory that is in no region, see device.QP's LendPlain.
type PlainLender interface {
	LendPlain(to Source, mem []byte) (rkey, addr uint64, err error)
	Relend(rkey uint64, mem []byte) error
}

// LendPlain implements device.QP.
func (l *lending) LendPlain(ah device.AH, qpn uint16, mem []byte) (rkey, addr uint64, err error) {
	switch {
	case l.plain == nil:
		return 0, 0, device.ErrNotSupported
	case l.over:
		return 0, 0, device.ErrClosed
	case !l.ahs.valid(ah):
		return 0, 0, device.ErrBadAH
	}
	return l.plain.LendPlain(Source{GID: l.ahs.entries[ah].gid, QPN: qpn}, mem)
}

// Relend implements device.QP.
func (l *lending) Relend(_ uint8, rkey uint64, mem []byte) error {
	if l.plain == nil {
		return device.ErrNotSupported
	}
	return l.plain.Relend(rkey, mem)
}

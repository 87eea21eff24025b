package nic

import "github.com/efactor/efactor/actors/device"

// Holder refuses packets of a queue pair's messages from a turn on (device.QP's HoldBack), or
// takes them again. If it knows nothing of that queue pair it does nothing.
type Holder interface {
	HoldBack(from Source, on bool, turn uint32)
}

// holder is the part of a queue pair that holds others back, and says why they are not reached.
type holder struct {
	by       Holder    // nil: it cannot
	explains Explainer // nil: it does not know
	ahs      *ahTable
}

// HoldBack implements device.QP.
func (h *holder) HoldBack(ah device.AH, qpn uint16, on bool, turn uint32) error {
	switch {
	case h.by == nil:
		return device.ErrNotSupported
	case !h.ahs.valid(ah):
		return device.ErrBadAH
	}
	h.by.HoldBack(Source{GID: h.ahs.entries[ah].gid, QPN: qpn}, on, turn)
	return nil
}

package nic

import "github.com/efactor/efactor/actors/device"

// Explainer is a carrier that knows why it does not reach a device (device.QP's Why).
type Explainer interface {
	Why(gid device.GID) error
}

// Why implements device.QP.
func (h *holder) Why(ah device.AH) error {
	if h.explains == nil || !h.ahs.valid(ah) {
		return nil
	}
	return h.explains.Why(h.ahs.entries[ah].gid)
}

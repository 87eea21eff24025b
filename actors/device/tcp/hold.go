package tcp

import "github.com/efactor/efactor/actors/device/nic"

// holder holds remote queue pairs back.
type holder struct{ of *port }

// HoldBack implements nic.Holder.
func (h holder) HoldBack(from nic.Source, on bool, turn uint32) {
	if r := h.of.remotes[address{from.GID, from.QPN}]; r != nil {
		r.held, r.turn = on, turn
	}
}

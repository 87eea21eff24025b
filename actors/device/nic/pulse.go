package nic

import "github.com/efactor/efactor/actors/device"

// Pulser is device.QP's Pulse.
type Pulser interface {
	Pulse(ah device.AH, qpn uint16) (uint32, bool)
}

// pulse is the part of a queue pair that tells whose process runs.
type pulse struct{ by Pulser } // nil: unknown

// Pulse implements device.QP.
func (p *pulse) Pulse(ah device.AH, qpn uint16) (uint32, bool) {
	if p.by == nil {
		return 0, false
	}
	return p.by.Pulse(ah, qpn)
}

package shm

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
)

// mismatch is why the latest queue pair that does not fit this one does not.
type mismatch struct{ why error }

// of notes a reason.
func (m *mismatch) of(format string, args ...any) device.Status {
	m.why = fmt.Errorf("shm: "+format, args...)
	return device.StatusMismatch
}

// Why implements nic.Explainer. It is asked when a send has just ended by device.StatusMismatch.
func (m *mismatch) Why(device.GID) error { return m.why }

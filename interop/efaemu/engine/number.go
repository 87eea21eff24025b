package engine

import (
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/device"
)

// noQKey is the Q_Key of placeholders. Programs cannot have it: bit 31 is for the
// privileged.
const noQKey = 0xefa0_0000

// openPlaceholder opens a queue pair of the device that does nothing but keep its
// number: senders don't have its Q_Key, so they learn that there is no such queue pair.
func (e *Engine) openPlaceholder(qpn uint16) (device.QP, error) {
	return e.cfg.Device.OpenQP(device.QPConfig{SQDepth: 1, RQDepth: 1, QPN: qpn, QKey: noQKey})
}

// reserve takes a number that is free on the fabric and differs from this card's
// others in the low bits, by which libraries find their queue pairs: the lowest, or
// the next after the last one, where the device has chosen the first.
func (e *Engine) reserve() (device.QP, error) {
	if len(e.slots) > int(e.mask) || len(e.slots) >= limit(e.cfg.Profile.MaxQP, 1<<16) {
		return nil, fmt.Errorf("%w: %d queue pairs", device.ErrNoMemory, len(e.slots))
	}
	first := uint16(1)
	if !e.cfg.Profile.QPNReuse {
		if e.lastQPN == 0 {
			return e.openPlaceholder(0)
		}
		first = e.lastQPN + 1
	}
	for i := range 1 << 16 {
		n := first + uint16(i)
		if n == 0 || e.slots[n&e.mask] {
			continue
		}
		dev, err := e.openPlaceholder(n)
		if err == nil || !errors.Is(err, device.ErrQPNInUse) {
			return dev, err
		}
	}
	return nil, fmt.Errorf("%w: all", device.ErrQPNInUse)
}

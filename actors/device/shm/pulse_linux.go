package shm

import "github.com/efactor/efactor/actors/device"

// Pulse implements nic.Pulser: it is counted up every watchPeriod.
func (p *port) Pulse(ah device.AH, qpn uint16) (uint32, bool) {
	l := p.links.get(qpn)
	if l == nil || int(ah) >= len(p.routes) || l.gid != p.routes[ah] {
		return 0, false
	}
	var beat uint32
	ok := p.safely(func() { beat = l.ctl.beat.Load() }, nil)
	return beat, ok
}

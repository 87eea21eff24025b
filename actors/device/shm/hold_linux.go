package shm

import "github.com/efactor/efactor/actors/device/nic"

// HoldBack implements nic.Holder: senders look at the flag before they claim a receive.
func (p *port) HoldBack(from nic.Source, on bool, turn uint32) {
	_ = p.safely(func() {
		for i := range p.rx.senders {
			s := &p.rx.senders[i]
			if who := ident(s.who.Load()); who == 0 || who.qpn() != from.QPN || p.rx.origins[i].load() != from.GID {
				continue
			}
			if on {
				p.rx.turns[i].Store(turn)
				s.flags.Or(heldBack)
			} else {
				s.flags.And(^heldBack)
			}
		}
	}, nil) // a queue pair that is cut is found by Poll
}

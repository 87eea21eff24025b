package shm

import "github.com/efactor/efactor/actors/device"

// enter makes an entry in the receiver's sender table, or finds our existing one.
// One CAS claims it and names its owner, so a sender that dies here leaves an entry
// that the receiver can trace to it.
func (o *outlet) enter(qkey uint32, gid device.GID) bool {
	free := -1
	for i := range o.senders {
		switch who := ident(o.senders[i].who.Load()); {
		case who == o.self:
			o.me, o.entry = i, &o.senders[i]
			return true
		case who == 0 && free < 0:
			free = i
		}
	}
	if free < 0 {
		return false
	}
	for i := free; i < len(o.senders); i++ {
		if s := &o.senders[i]; s.who.CompareAndSwap(0, uint64(o.self)) {
			s.qkey.Store(qkey)
			o.origins[i].store(gid)
			o.me, o.entry = i, s
			return true
		}
	}
	return false
}

// leave marks our end as orderly, not a death. The entry stays until the receiver
// has seen the mark: packets that it has not taken yet name it.
func (o *outlet) leave() {
	if o.ours() {
		o.entry.flags.Or(bye)
	}
}

// over reports whether the segment is closed or its owner dead.
func (o *outlet) over() bool {
	b := o.ctl.bell.Load()
	return b == closed || b == dead
}

// left reports whether the owner closed the segment, rather than died.
func (o *outlet) left() bool { return o.ctl.bell.Load() == closed }

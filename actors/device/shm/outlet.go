package shm

import (
	"encoding/binary"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/sys"
)

// outlet is a sender's end of a ring. Each of its accesses to a word of the ring is a method
// below. Their order is that of the steps in sendop.go, which take one each: send is a row of
// them for the ordinary packet, and leaves anything else to the steps.
type outlet struct {
	ring
	self ident
	me   int    // our entry in the sender table
	hint uint64 // every position before it has been claimed
	dry  uint64 // 1 + the value of posted when we last found nothing
	full uint64 // the same of the last look at the whole ring
}

// send sends one packet with marks. Preconditions: it is at most the MTU.
func (o *outlet) send(wr *device.SendWR, marks word) outcome {
	pos := o.hint
	if !o.ours() || wr.Begins && o.putsOff(wr) {
		return o.run(o.begin(wr, marks))
	}
	w := o.look(pos)
	if !o.open(w, pos) || !o.claim(w, pos) {
		return o.run(o.begin(wr, marks)) // nothing has happened yet
	}
	o.publish(o.fill(w, pos, wr, marks), pos)
	o.pass(pos)
	if o.state() != running {
		return o.run(sendOp{at: stepBell})
	}
	willWrite(o.post((pos + 1) & o.mask))
	return sent
}

// run takes the steps that are left.
func (o *outlet) run(op sendOp) outcome {
	for op.at != stepOver {
		o.step(&op)
	}
	willWrite(o.post(o.hint & o.mask))
	return op.result
}

// ours reports whether our entry in the sender table is still ours.
func (o *outlet) ours() bool { return ident(o.senders[o.me].who.Load()) == o.self }

// putsOff reports whether the receiver holds us back from a message on that is not later than
// the one that the packet begins. The flags lie in the same cache line as who.
func (o *outlet) putsOff(wr *device.SendWR) bool {
	return o.senders[o.me].flags.Load()&heldBack != 0 && int32(wr.Turn-o.turns[o.me].Load()) >= 0 && !wr.HasImm
}

// look reads the post at pos.
func (o *outlet) look(pos uint64) word { return word(o.post(pos & o.mask).Load()) }

// open reports whether w, which was seen at pos, is a post that may be claimed.
func (o *outlet) open(w word, pos uint64) bool {
	return w.is(posted, o.lap(pos)) && int(w.slot()) < o.slots
}

// claim makes the post w ours; false: it has changed meanwhile.
func (o *outlet) claim(w word, pos uint64) bool {
	return o.post(pos&o.mask).CompareAndSwap(uint64(w), uint64(w.by(o.me, claimed)))
}

// fill puts the packet into the cell of the post w, or its slot, and returns what is to be said of
// it.
func (o *outlet) fill(w word, pos uint64, wr *device.SendWR, marks word) word {
	c := &o.cell[pos&o.mask]
	dst, n := c.inline[:], len(wr.Header)+len(wr.Payload)
	if n > marks.room() {
		dst = o.slotBytes(int(w.slot()))
	}
	if marks&withImm != 0 {
		binary.LittleEndian.PutUint32(c.inline[inlineMax-immBytes:], wr.Imm)
	}
	copy(dst[copy(dst, wr.Header):], wr.Payload)
	return w.by(o.me, ready) | word(n)<<32 | marks
}

// publish says in the cell that the packet is there. The place is ours: no other process writes to
// its cell until the receiver has taken the packet, or has seen us dead.
func (o *outlet) publish(w word, pos uint64) {
	sys.StoreRelease(&o.cell[pos&o.mask].word, uint64(w))
}

// pass tells others where to look. It is not a release: publishing must come before the look at
// the bell, as parking comes before the receiver's last look at the cells.
func (o *outlet) pass(pos uint64) {
	o.hint = pos + 1
	o.ctl.tail.Store(o.hint)
}

// state is that of the receiver (control.bell).
func (o *outlet) state() uint32 { return o.ctl.bell.Load() }

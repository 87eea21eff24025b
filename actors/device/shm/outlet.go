package shm

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
	"github.com/efactor/efactor/runtime/sys"
)

// outlet is a sender's end of a ring. Each of its accesses to a word of the ring is a method
// below. Their order is that of the steps in sendop.go, which take one each: send is a row of
// them for the ordinary packet, and leaves anything else to the steps.
type outlet struct {
	ring
	self  ident
	me    int // our entry in the sender table,
	entry *sender
	hint  uint64         // every position before it has been claimed; aim sets it, and
	next  *atomic.Uint64 // its post, and
	want  word           // what that says when it can be claimed, as to stateBits
	dry   uint64         // 1 + the value of posted when we last found nothing
	full  uint64         // the same of the last look at the whole ring
}

// send sends one packet with marks. Preconditions: it is at most the MTU.
func (o *outlet) send(wr *device.SendWR, marks word) outcome {
	if !o.ours() || o.held() {
		return o.run(o.begin(wr, marks))
	}
	w := word(o.next.Load())
	if w&stateBits != o.want || !o.open(w) || !o.claim(o.next, w) {
		return o.run(o.begin(wr, marks)) // nothing has happened yet
	}
	pos, n := o.hint, len(wr.Header)+len(wr.Payload)
	c, says := &o.cell[pos&o.mask], w.by(o.me, ready)|word(n)<<32|marks
	if !c.short(wr, marks) {
		o.fill(c, w, wr, marks)
	}
	c.publish(says)
	o.pass(pos)
	if o.state() != running {
		return o.run(sendOp{at: stepBell})
	}
	willWrite(o.next)
	return sent
}

// run takes the steps that are left.
func (o *outlet) run(op sendOp) outcome {
	for op.at != stepOver {
		o.step(&op)
	}
	willWrite(o.next)
	return op.result
}

// ours reports whether our entry in the sender table is still ours.
func (o *outlet) ours() bool { return ident(o.entry.who.Load()) == o.self }

// held reports whether the receiver holds us back. The flags lie in the same cache line as who.
func (o *outlet) held() bool { return o.entry.flags.Load()&heldBack != 0 }

// putsOff reports whether the receiver holds us back from a message on that is not later than
// the one that the packet begins.
func (o *outlet) putsOff(wr *device.SendWR) bool {
	return o.held() && int32(wr.Turn-o.turns[o.me].Load()) >= 0 && !wr.HasImm
}

// open reports whether w, which a post of its lap says, may be claimed: it names a slot.
func (o *outlet) open(w word) bool { return int(w.slot()) < o.slots }

// claim makes the post ours that says w; false: it has changed meanwhile.
func (o *outlet) claim(post *atomic.Uint64, w word) bool {
	return post.CompareAndSwap(uint64(w), uint64(w.by(o.me, claimed)))
}

// short puts a packet with marks into the cell, if it is short and has no immediate.
func (c *cell) short(wr *device.SendWR, marks word) bool {
	return marks&withImm == 0 && nic.PutShort((*[nic.ShortRoom]byte)(c.inline[:]), wr)
}

// fill puts any other packet into the cell of the post w, or its slot.
func (o *outlet) fill(c *cell, w word, wr *device.SendWR, marks word) {
	dst := c.inline[:]
	if len(wr.Header)+len(wr.Payload) > marks.room() {
		dst = o.slotBytes(int(w.slot()))
	}
	if marks&withImm != 0 {
		binary.LittleEndian.PutUint32(c.inline[inlineMax-immBytes:], wr.Imm)
	}
	sys.CopyOut(dst[copy(dst, wr.Header):], wr.Payload)
}

// publish says in the cell that the packet is there. The place is the sender's: no other process
// writes to its cell until the receiver has taken the packet, or has seen the sender dead.
func (c *cell) publish(w word) { sys.StoreRelease(&c.word, uint64(w)) }

// pass tells others where to look. It is not a release: publishing must come before the look at
// the bell, as parking comes before the receiver's last look at the cells.
func (o *outlet) pass(pos uint64) {
	o.aim(pos + 1)
	o.ctl.tail.Store(pos + 1)
}

// aim has the next packet begin to look at pos.
func (o *outlet) aim(pos uint64) {
	o.hint, o.next, o.want = pos, o.post(pos&o.mask), word(o.lap(pos))<<48|word(posted)
}

// state is that of the receiver (control.bell).
func (o *outlet) state() uint32 { return o.ctl.bell.Load() }

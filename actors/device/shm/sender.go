package shm

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
	"github.com/efactor/efactor/runtime/sys"
)

// sender is a sender's end of a ring. Each of its accesses to a word of the ring is a method
// below. Their order is that of the steps of a sendOp, which take one each: send is a row of
// them for the ordinary packet, and leaves anything else to the steps.
type sender struct {
	ring
	self  ident
	me    int // our entry in the sender table,
	entry *senderEntry
	hint  uint64         // every position before it has been claimed; aim sets it, and
	next  *atomic.Uint64 // its post, and
	want  word           // what that says when it can be claimed, as to stateBits
	dry   uint64         // 1 + the value of posted when we last found nothing
	full  uint64         // the same of the last look at the whole ring
	sleep uint32         // the receiver's state, as asleep has found it
}

// send sends one packet with flags. Preconditions: it is at most the MTU.
func (o *sender) send(wr *device.SendWR, flags word) outcome {
	if !o.registered() || o.isRefused(heldBack|shutOut) {
		return o.run(o.begin(wr, flags))
	}
	w := word(o.next.Load())
	if w&stateBits != o.want || !o.open(w) || !o.claim(o.next, w) {
		return o.run(o.begin(wr, flags)) // nothing has happened yet
	}
	pos, n := o.hint, len(wr.Header)+len(wr.Payload)
	c, says := &o.cell[pos&o.mask], w.by(o.me, ready)|word(n)<<32|flags
	if !c.short(wr, flags) {
		o.fill(c, w, wr, flags)
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
func (o *sender) run(op sendOp) outcome {
	for op.at != stepOver {
		o.step(&op)
	}
	willWrite(o.next)
	return op.result
}

// asleep reports whether the receiver sleeps, or a bug has overwritten its state. If so the caller calls rings, rings the
// doorbell, and calls roused.
func (o *sender) asleep() bool {
	o.sleep = o.state()
	return o.sleep != running && !over(o.sleep)
}

// rings has the receiver know that the doorbell is about to ring for the sleep that asleep has found.
func (o *sender) rings() {
	if by := o.sleep | ringing; by != o.sleep && o.ctl.state.CompareAndSwap(o.sleep, by) {
		o.sleep = by
	}
}

// roused has others know that the doorbell has rung for the sleep that asleep has found, if that lasts.
func (o *sender) roused() { o.ctl.state.CompareAndSwap(o.sleep, running) }

// registered reports whether our entry in the sender table is still ours.
func (o *sender) registered() bool { return ident(o.entry.who.Load()) == o.self }

// isRefused reports whether the receiver has set one of the flags. They lie in the same cache line as who.
func (o *sender) isRefused(flags uint32) bool { return o.entry.flags.Load()&flags != 0 }

// mustWait reports whether the receiver holds us back from a message on that is not later than
// the one that the packet begins.
func (o *sender) mustWait(wr *device.SendWR) bool {
	return o.isRefused(heldBack) && int32(wr.MsgID-o.heldFrom[o.me].Load()) >= 0 && !wr.HasImm
}

// open reports whether w, which a post of its lap says, may be claimed: it names a slot.
func (o *sender) open(w word) bool { return int(w.slot()) < o.slots }

// claim makes the post ours that says w; false: it has changed meanwhile.
func (o *sender) claim(post *atomic.Uint64, w word) bool {
	return post.CompareAndSwap(uint64(w), uint64(w.by(o.me, claimed)))
}

// short puts a packet with flags into the cell, if it is short and has no immediate.
func (c *cell) short(wr *device.SendWR, flags word) bool {
	return flags&withImm == 0 && nic.PutShort((*[nic.ShortRoom]byte)(c.inline[:]), wr)
}

// fill puts any other packet into the cell of the post w, or its slot.
func (o *sender) fill(c *cell, w word, wr *device.SendWR, flags word) {
	dst := c.inline[:]
	if len(wr.Header)+len(wr.Payload) > flags.room() {
		dst = o.slotBytes(int(w.slot()))
	}
	if flags&withImm != 0 {
		binary.LittleEndian.PutUint32(c.inline[inlineMax-immBytes:], wr.Imm)
	}
	sys.CopyOut(dst[copy(dst, wr.Header):], wr.Payload)
}

// publish says in the cell that the packet is there. The place is the sender's: no other process
// writes to its cell until the receiver has taken the packet, or has seen the sender dead.
func (c *cell) publish(w word) { sys.StoreRelease(&c.word, uint64(w)) }

// pass tells others where to look. It is not a release: publishing must come before the look at
// the receiver's state, as parking comes before the receiver's last look at the cells.
func (o *sender) pass(pos uint64) {
	o.aim(pos + 1)
	o.ctl.tail.Store(pos + 1)
}

// aim has the next packet begin to look at pos.
func (o *sender) aim(pos uint64) {
	o.hint, o.next, o.want = pos, o.post(pos&o.mask), word(o.lap(pos))<<48|word(posted)
}

// state is that of the receiver (control.state).
func (o *sender) state() uint32 { return o.ctl.state.Load() }

// register makes an entry in the receiver's sender table, or finds our existing one.
// One CAS claims it and names its owner, so a sender that dies here leaves an entry
// that the receiver can trace to it.
func (o *sender) register(qkey uint32, gid device.GID) bool {
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
			s.flags.Store(0) // what may be left of another's
			s.qkey.Store(qkey)
			o.origins[i].store(gid)
			o.me, o.entry = i, s
			o.ctl.asked.Add(1)
			return true
		}
	}
	return false
}

// unregister marks our end as orderly, not a death. The entry stays until the receiver
// has seen the flag: packets that it has not taken yet name it.
func (o *sender) unregister() {
	if o.registered() {
		o.entry.flags.Or(bye)
	}
}

// ended reports whether the segment is closed or its owner dead.
func (o *sender) ended() bool { return over(o.ctl.state.Load()) }

// over reports whether a state is the last one.
func over(state uint32) bool { return state == closed || state == dead }

// closedInOrder reports whether the owner closed the segment, rather than died.
func (o *sender) closedInOrder() bool { return o.ctl.state.Load() == closed }

// step is the state of a sendOp. Each step has at most one access to a word of the
// ring, so a test that stops between steps has seen every interleaving.
type step uint8

const (
	stepSelf    step = iota // is our entry in the sender table still ours?
	stepHeld                // are we held back, or shut out?
	stepLook                // is there a post at pos?
	stepClaim               // CAS posted -> claimed
	stepPosted              // is there anything posted at or after pos?
	stepTail                // where do others claim?
	stepDry                 // nothing is: is the receiver there at all?
	stepCopy                // fill the cell or the slot
	stepPublish             // store ready
	stepHint                // tell others where to look
	stepBell                // does the receiver sleep?
	stepOver
)

// outcome is the end of a sendOp.
type outcome uint8

const (
	sent     outcome = iota
	sentWake         // sent, and the sender must ring the doorbell, see roused
	notReady         // nothing is posted
	refused          // the receiver has shut us out
	gone             // the receiver has closed its segment or died
	evicted          // our entry in the sender table is no longer ours
)

// sendOp sends one packet. A sender may die after any step:
//
//	before claim            nothing has happened
//	before publish          one slot is claimed; the receiver takes it back
//	before hint             others start looking a little earlier
//	before bell, wake, ring the receiver may sleep on; news of our death wakes it
type sendOp struct {
	at     step
	result outcome
	all    bool // disregard the tail
	looks  int
	pos    uint64
	seen   uint64 // what posted was before the last look
	w      word
	wr     *device.SendWR
	flags  word
}

// begin is a sendOp at its first step.
func (o *sender) begin(wr *device.SendWR, flags word) sendOp {
	return sendOp{pos: o.hint, seen: o.hint, wr: wr, flags: flags}
}

func (o *sender) step(op *sendOp) {
	switch op.at {
	case stepSelf:
		op.at = stepHeld
		if !o.registered() {
			op.result, op.at = evicted, stepOver
		}

	case stepHeld:
		op.at = stepLook
		switch {
		case o.isRefused(shutOut):
			op.result, op.at = refused, stepOver
		case op.wr.Begins && o.mustWait(op.wr):
			op.at = stepDry
		}

	case stepLook:
		op.w = word(o.post(op.pos & o.mask).Load())
		switch {
		case op.w.is(posted, o.lap(op.pos)) && o.open(op.w):
			op.at = stepClaim
		case op.w.is(claimed, o.lap(op.pos)):
			op.looks++
			op.at = stepTail
		default:
			op.at = stepPosted
		}

	case stepClaim:
		op.at = stepLook
		if o.claim(o.post(op.pos&o.mask), op.w) {
			op.at = stepCopy
		}

	case stepPosted:
		o.seek(op, o.ctl.posted.Load())

	case stepTail:
		// Positions between pos and tail have been claimed by others. An impossible
		// tail (it is a hint) is not followed.
		op.pos++
		if t := o.ctl.tail.Load(); !op.all && int64(t-op.pos) > 0 && t-op.pos <= o.mask {
			op.pos = t
		}
		op.at = stepLook

	case stepDry:
		op.result, op.at = notReady, stepOver
		if o.ended() {
			op.result = gone
		}

	case stepCopy:
		c, n := &o.cell[op.pos&o.mask], len(op.wr.Header)+len(op.wr.Payload)
		if !c.short(op.wr, op.flags) {
			o.fill(c, op.w, op.wr, op.flags)
		}
		op.w = op.w.by(o.me, ready) | word(n)<<32 | op.flags
		op.at = stepPublish

	case stepPublish:
		o.cell[op.pos&o.mask].publish(op.w)
		op.at = stepHint

	case stepHint:
		o.pass(op.pos)
		op.at = stepBell

	case stepBell:
		switch {
		case o.asleep():
			op.result = sentWake
		case over(o.sleep):
			op.result = gone
		}
		op.at = stepOver

	case stepOver:
	}
}

// seek decides how to continue from a post that is not ours to claim, when
// positions below end have been posted.
func (o *sender) seek(op *sendOp, end uint64) {
	op.looks++
	lag := int64(end - op.pos)
	switch {
	case op.looks > 2*o.cells+2: // end or the posts are invalid
		op.at = stepDry
	case lag > int64(o.cells): // we have slept through a lap
		op.pos = end - uint64(o.cells) - 1
		op.at = stepTail
	case lag > 0 && int64(op.seen-op.pos) > 0:
		op.at = stepTail // passed over
	case lag > 0:
		op.seen = end
		op.at = stepLook // posted since we looked, perhaps
	case o.dry == end+1 && o.full != end+1:
		// Nothing appears to be posted, as at the last look: look at the whole
		// ring, in case the tail was wrong. Once is enough until more is posted: a
		// window of packets that wait for a slow receiver is retried often.
		op.all, op.seen, o.full = true, end, end+1
		op.pos = end - uint64(o.cells)
		op.at = stepLook
	default:
		o.dry = end + 1
		op.at = stepDry
	}
}

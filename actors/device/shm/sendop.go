package shm

import "github.com/efactor/efactor/actors/device"

// step is the state of a sendOp. Each step has at most one access to a word of the
// ring, so a test that stops between steps has seen every interleaving.
type step uint8

const (
	stepSelf    step = iota // is our entry in the sender table still ours?
	stepHeld                // are we held back?
	stepLook                // is there a post at pos?
	stepClaim               // CAS posted -> claimed
	stepPosted              // is there anything posted at or after pos?
	stepTail                // where do others claim?
	stepDry                 // nothing is: is the receiver there at all?
	stepCopy                // fill the cell or the slot
	stepPublish             // store ready
	stepHint                // tell others where to look
	stepBell                // does the receiver sleep?
	stepWake                // CAS parked -> running
	stepOver
)

// outcome is the end of a sendOp.
type outcome uint8

const (
	sent     outcome = iota
	sentWake         // sent, and the sender must ring the bell
	notReady         // nothing is posted
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
	marks  word
}

// begin is a sendOp at its first step.
func (o *outlet) begin(wr *device.SendWR, marks word) sendOp {
	return sendOp{pos: o.hint, seen: o.hint, wr: wr, marks: marks}
}

func (o *outlet) step(op *sendOp) {
	switch op.at {
	case stepSelf:
		op.at = stepLook
		if !o.ours() {
			op.result, op.at = evicted, stepOver
		} else if op.wr.Begins {
			op.at = stepHeld
		}

	case stepHeld:
		op.at = stepLook
		if o.putsOff(op.wr) {
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
		if o.over() {
			op.result = gone
		}

	case stepCopy:
		c, n := &o.cell[op.pos&o.mask], len(op.wr.Header)+len(op.wr.Payload)
		if !c.short(op.wr, op.marks) {
			o.fill(c, op.w, op.wr, op.marks)
		}
		op.w = op.w.by(o.me, ready) | word(n)<<32 | op.marks
		op.at = stepPublish

	case stepPublish:
		o.cell[op.pos&o.mask].publish(op.w)
		op.at = stepHint

	case stepHint:
		o.pass(op.pos)
		op.at = stepBell

	case stepBell:
		switch o.state() {
		case parked:
			op.at = stepWake
		case closed, dead:
			op.result, op.at = gone, stepOver
		default:
			op.at = stepOver
		}

	case stepWake:
		if o.ctl.bell.CompareAndSwap(parked, running) {
			op.result = sentWake
		}
		op.at = stepOver

	case stepOver:
	}
}

// seek decides how to continue from a post that is not ours to claim, when
// positions below end have been posted.
func (o *outlet) seek(op *sendOp, end uint64) {
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

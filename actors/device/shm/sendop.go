package shm

import "github.com/efactor/efactor/runtime/sys"

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
	stepDry                 // nothing is: is the ne?
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

// outlet is a sender's end of a ring.
type outlet struct {
	ring
	self ident
	me   int    // our entry in the sender table
	hint uint64 // every position before it has been claimed
	dry  uint64 // 1 + the value of posted when we last found nothing
	full uint64 // the same of the last look at the whole ring
}

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
	mark   mark
	pos    uint64
	seen   uint64 // what posted was before the last look
	w      word
}

// send runs a sendOp to its end. Preconditions: header and payload together are at
// most the MTU.
func (o *outlet) send(m mark, header, payload []byte) outcome {
	op := sendOp{pos: o.hint, seen: o.hint, mark: m}
	for op.at != stepOver {
		o.step(&op, header, payload)
	}
	willWrite(o.post(o.hint & o.mask))
	return op.result
}

func (o *outlet) begin() sendOp { return sendOp{pos: o.hint, seen: o.hint} }

func (o *outlet) step(op *sendOp, header, payload []byte) {
	switch op.at {
	case stepSelf:
		op.at = stepLook
		if ident(o.senders[o.me].who.Load()) != o.self {
			op.result, op.at = evicted, stepOver
		} else if op.mark.begins {
			op.at = stepHeld
		}

	case stepHeld: // the flags lie in the same cache line as who
		op.at = stepLook
		if o.senders[o.me].flags.Load()&heldBack != 0 && int32(op.mark.turn-o.turns[o.me].Load()) >= 0 {
			op.result, op.at = notReady, stepOver
			if o.over() {
				op.result = gone
			}
		}

	case stepLook:
		op.w = word(o.post(op.pos & o.mask).Load())
		switch thisLap := op.w.lap() == o.lap(op.pos); {
		case thisLap && op.w.kind() == posted && int(op.w.slot()) < o.slots:
			op.at = stepClaim
		case thisLap && op.w.kind() == claimed:
			op.looks++
			op.at = stepTail
		default:
			op.at = stepPosted
		}

	case stepClaim:
		c := makeWord(claimed, op.w.lap(), 0, op.w.slot(), o.me)
		if !o.post(op.pos&o.mask).CompareAndSwap(uint64(op.w), uint64(c)) {
			op.at = stepLook
			return
		}
		op.w, op.at = c, stepCopy

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
		n := len(header) + len(payload)
		inline := &o.cell[op.pos&o.mask].inline
		op.mark.putImm(inline)
		dst := inline[:]
		if n > op.mark.bits.room() {
			dst = o.slotBytes(int(op.w.slot()))
		}
		copy(dst[copy(dst, header):], payload)
		op.at = stepPublish

	case stepPublish:
		// The place is ours: no other process writes to its cell until the receiver
		// has taken the packet, or has seen us dead.
		n := len(header) + len(payload)
		w := makeWord(ready, op.w.lap(), uint16(n), op.w.slot(), o.me) | op.mark.bits
		sys.StoreRelease(&o.cell[op.pos&o.mask].word, uint64(w))
		op.at = stepHint

	case stepHint:
		// Not a release: publishing must come before the look at the bell,
		// as parking comes before the receiver's last look at the cells.
		o.hint = op.pos + 1
		o.ctl.tail.Store(o.hint)
		op.at = stepBell

	case stepBell:
		switch o.ctl.bell.Load() {
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

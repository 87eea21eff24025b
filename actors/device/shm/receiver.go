package shm

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/efactor/efactor/runtime/sys"
)

// receiver is the owner's end of a ring. It posts slots at increasing positions and
// takes packets from head on. A post that it finds claimed is put aside and checked
// again later, so a sender that stops between claiming and publishing costs one
// slot and holds up no other: later laps pass over its place, too.
//
// Invariants: head <= end <= head+cells, and every position between them that is
// not passed over has a place with a slot. Senders rely on the first to find the
// oldest post.
type receiver struct {
	ring
	head, end uint64
	own       []ownPost
	aside     []uint32 // places that head has passed while they were claimed
	later     []int32  // slots for which there is no place before head moves

	first           *ownPost // the one at head
	at              *cell    // its cell
	want            word     // what that says when its packet is there, never: search must see
	looks, patience int
	sleeps          uint32
}

func newReceiver(r ring) receiver {
	rc := receiver{
		ring: r, own: make([]ownPost, r.cells), aside: make([]uint32, 0, r.cells),
		later:    make([]int32, 0, r.slots),
		patience: patienceOne,
	}
	for i := range rc.own {
		rc.own[i].want = never
	}
	rc.lay()
	return rc
}

// lay gives the places their posts and cells.
func (r *receiver) lay() {
	for i := range r.own {
		r.own[i].post, r.own[i].cell = r.post(uint64(i)), &r.cell[i]
	}
	r.aim()
}

// ownPost is the receiver's own record of a post, the only one it relies on.
type ownPost struct {
	pos  uint64
	want word // what the cell says when the packet is there, as to postBits; never: no receive is posted here

	// Where these lie is the same for ever.
	post *atomic.Uint64
	cell *cell
}

// never is the want of no post: it has bits outside postBits.
const never = ^word(0)

// hasSlot reports whether a receive is posted there, of slot.
func (p *ownPost) hasSlot() bool { return p.want != never }

func (p *ownPost) slot() int32 { return int32(p.want.slot()) }

// packet is what was found at a place. Unless its kind is ready there is a slot,
// but no packet in it: the words were invalid or a claim was taken back.
type packet struct {
	slotState
	slot int32
	imm  uint32 // if the packet has one
}

// slotState is the result of reading the words of a place, each read once and
// checked: what the cell or the post says, 0 if that cannot be, and the sender that it names.
type slotState struct {
	w   word
	who ident
}

// patience is the number of looks at an empty place after which the receiver also
// looks whether its post is claimed, that is, whether there may be packets behind
// it. A look costs a sender the post's cache line. With one sender there is nothing
// behind unless an earlier one has died.
const (
	patienceOne  = 1024
	patienceMany = 32
)

// postSlots makes slots receivable; flush publishes them to senders.
func (r *receiver) postSlots(slots []int32) {
	full := r.head + uint64(r.cells)
	for _, slot := range slots {
		pos := r.end
		pl := &r.own[pos&r.mask]
		if pl.hasSlot() || pos == full {
			r.postPast(slot)
			continue
		}
		w := makeWord(posted, r.lap(pos), 0, uint16(slot), 0)
		pl.pos, pl.want = pos, w|word(ready)
		r.end = pos + 1
		sys.StoreRelease(pl.post, uint64(w))
	}
	if r.want == never {
		r.aim()
	}
}

// postSlot is postSlots for one.
func (r *receiver) postSlot(slot int32) { r.postSlots([]int32{slot}) }

// postPast is postSlot if the next place is not free: the position is passed over.
func (r *receiver) postPast(slot int32) {
	for r.end-r.head < uint64(r.cells) {
		if !r.own[r.end&r.mask].hasSlot() {
			r.postSlot(slot)
			return
		}
		r.end++ // a slow sender's
	}
	r.later, r.want = append(r.later, slot), never // behind a whole ring of posts and slow senders
}

func (r *receiver) flush() { sys.StoreRelease(&r.ctl.posted, r.end) }

// catchUp posts the slots that had to wait for head.
func (r *receiver) catchUp() {
	for n := len(r.later); n > 0 && r.end-r.head < uint64(r.cells); n-- {
		slot := r.later[len(r.later)-1]
		r.later = r.later[:len(r.later)-1]
		r.postSlot(slot)
	}
	r.flush()
}

// aim notes what the cell at head is to say: in the common case a place with a post is at head, so
// that search would look at nothing but its cell.
func (r *receiver) aim() {
	pl, want := &r.own[r.head&r.mask], never
	if pl.pos == r.head && len(r.later) == 0 {
		want = pl.want
	}
	r.first, r.at, r.want = pl, pl.cell, want
}

// look is what the cell at head says.
func (r *receiver) look() word { return word(r.at.word.Load()) }

// nothing reports whether w, which look has found, is all that there is to be seen for now.
func (r *receiver) nothing(w word) bool {
	if (w^r.want)&stateBits == 0 || r.want == never || r.looks >= r.patience {
		return false
	}
	r.looks++
	return true
}

// short reports whether w, which the cell at head said, is of a short packet without flags.
func (r *receiver) short(w word) bool {
	return w&(postBits|withImm|written) == r.want && w.length() <= lineMax
}

// takeShort takes the packet at head, whose cell said w, if its sender is known and it is short.
// The caller goes on with pass and fetch.
func (r *receiver) takeShort(w word) {
	line := *(*[lineMax]byte)(r.at.inline[:]) // a variable of its own: a copy between places that might overlap is a call
	*r.lineOf(w.slot()) = line
	r.first.want = never
}

// next takes the next packet, if there is one. The cell at head said w, and not nothing.
func (r *receiver) next(w word, p *packet) bool {
	switch who := r.whose(w); {
	case who != 0 && r.short(w):
		p.w, p.who, p.slot = w, who, int32(w.slot())
		r.takeShort(w)
	case who != 0 && w&postBits == r.want && w.length() <= r.mtu:
		p.w, p.who = w, who
		r.take(&r.own[r.head&r.mask], p)
	case !r.search(p):
		return false
	}
	r.pass()
	r.fetch()
	return true
}

// pass moves head on from a place that was taken.
func (r *receiver) pass() {
	r.head++
	r.looks = 0
	r.aim()
}

// fetch has the cell after head brought. The next look is at the cell at head, which was brought
// before; it must not have to wait for the one after that.
func (r *receiver) fetch() { willRead(&r.cell[(r.head+1)&r.mask].word) }

// search is next for all other cases: it moves head to what can be taken, and takes it.
func (r *receiver) search(p *packet) bool {
	deep := r.looks >= r.patience
	v, found := r.advance(deep)
	if found {
		p.slotState = v
		r.take(&r.own[r.head&r.mask], p)
		return true
	}
	if r.looks++; deep {
		r.looks = 0
		r.mend()
	}
	return false
}

// nextAside takes a packet that was put aside and has been published since.
func (r *receiver) nextAside(p *packet) bool {
	for n, i := range r.aside {
		if v := r.readState(uint64(i), true); v.w.kind() != claimed {
			r.dropAside(n)
			p.slotState = v
			r.take(&r.own[i], p)
			return true
		}
	}
	return false
}

// reclaim takes back a slot, among those put aside, that the sender at index dead
// had claimed; false if there is no more.
func (r *receiver) reclaim(dead int, p *packet) bool {
	for n, i := range r.aside {
		if v := r.readState(uint64(i), true); v.w.kind() == claimed && v.w.sender() == dead {
			r.dropAside(n)
			p.slotState = v
			r.take(&r.own[i], p)
			return true
		}
	}
	return false
}

func (r *receiver) dropAside(n int) {
	last := len(r.aside) - 1
	r.aside[n] = r.aside[last]
	r.aside = r.aside[:last]
}

// advance moves head to the next place that can be taken; false if there is none.
// If deep, it goes past what is claimed, putting it aside.
func (r *receiver) advance(deep bool) (slotState, bool) {
	v, ok := r.walk(deep)
	if len(r.later) > 0 {
		r.catchUp()
	}
	r.aim()
	return v, ok
}

func (r *receiver) walk(deep bool) (slotState, bool) {
	for r.head != r.end {
		i := r.head & r.mask
		if pl := &r.own[i]; pl.pos == r.head && pl.hasSlot() {
			v := r.readState(i, deep)
			if v.w.kind() == posted {
				return slotState{}, deep && r.skipped(i)
			}
			if v.w.kind() != claimed {
				return v, true
			}
			r.aside = append(r.aside, uint32(i))
		}
		r.head++
	}
	return slotState{}, false
}

// skipped reports whether senders have gone past the post at head without claiming
// it. They cannot unless something has corrupted the tail, since posts are claimed
// in order; but then head would wait for a post that no sender sees.
func (r *receiver) skipped(i uint64) bool {
	ahead := r.ctl.tail.Load() - r.head
	return ahead-1 < uint64(r.cells) && r.readState(i, true).w.kind() == posted
}

// mend repairs the words that senders read and only the receiver knows. It is not asleep.
func (r *receiver) mend() {
	if r.ctl.state.Load() != running {
		r.ctl.state.Store(running)
	}
	if r.ctl.posted.Load() != r.end {
		r.flush()
	}
}

// take empties the place pl, whose state p has. The slot is the caller's from now on.
func (r *receiver) take(pl *ownPost, p *packet) {
	p.slot = pl.slot()
	pl.want = never
	switch w := p.w; {
	case w.kind() != ready:
		pl.post.Store(uint64(idle))
	case w&withImm != 0:
		p.imm = binary.LittleEndian.Uint32(pl.cell.inline[inlineMax-immBytes:])
		fallthrough
	default:
		if n := w.length(); n <= w.room() {
			copy(r.slot[int(p.slot)*r.stride:], pl.cell.inline[:n])
		}
	}
}

// drained reports whether everything before position end was taken or put aside,
// so that nothing of a sender that died before end was posted can be ahead.
func (r *receiver) drained(end uint64) bool {
	_, more := r.advance(true)
	return !more || int64(r.head-end) >= 0
}

// pending reports whether next or nextAside would yield something.
func (r *receiver) pending() bool {
	if _, ok := r.advance(true); ok {
		return true
	}
	for _, i := range r.aside {
		if r.readState(uint64(i), true).w.kind() != claimed {
			return true
		}
	}
	return false
}

// park announces that the receiver sleeps; it must look for packets once more after
// that. unpark withdraws it, and returns false if a sender has rung, or is about to.
func (r *receiver) park() {
	r.sleeps++
	r.ctl.state.Store(r.sleep())
}

func (r *receiver) unpark() bool { return r.ctl.state.Swap(running) == r.sleep() }

// sleep is the state of the present sleep, or the last one.
func (r *receiver) sleep() uint32 { return r.sleeps<<sleepShift | parked }

// readState looks whether a packet has arrived at place i, and if not and deep, whether
// its post is claimed. Without deep, posted stands for both.
func (r *receiver) readState(i uint64, deep bool) slotState {
	pl := &r.own[i]
	lap := r.lap(pl.pos)
	w := word(pl.cell.word.Load())
	if !w.is(ready, lap) {
		if !deep {
			return slotState{w: word(posted)}
		}
		w = word(pl.post.Load())
		if w.lap() != lap || w.kind() == ready {
			return slotState{}
		}
	}
	return r.checked(pl, w)
}

// checked is the state that w, a word of this lap, describes; the zero state if it cannot be.
func (r *receiver) checked(pl *ownPost, w word) slotState {
	who := r.whose(w)
	if !r.fits(pl, w) || who == 0 && w.kind() != posted {
		return slotState{}
	}
	return slotState{w, who}
}

// fits reports whether w can be of the post at a place.
func (r *receiver) fits(pl *ownPost, w word) bool {
	return w.slot() == pl.want.slot() && w.length() <= r.mtu
}

// whose is the queue pair behind a word that a sender wrote; 0 if it names none.
func (r *receiver) whose(w word) ident {
	if who := ident(r.senders[w.sender()].who.Load()); who.valid() {
		return who
	}
	return 0
}

package shm

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/efactor/efactor/actors/device"
)

// tableau is a ring on the heap with a receiver and some senders that move one step
// at a time, in any order: the tests of the lock-free part use it.
type tableau struct {
	mem     []byte
	rx      receiver
	senders []stepper
	flush   bool    // slots were posted, not yet published to senders
	free    []int32 // slots with the receiver's owner
	asleep  bool
	arming  bool // parked, but not looked yet
	rung    int  // bytes in the doorbell
	got     []uint16
	arms    int // how often the receiver may still go to sleep
}

// stepper is a sender and the packet it is at.
type stepper struct {
	out    sender
	op     sendOp
	busy   bool
	ringer bool // must ring the doorbell
	sent   int
	todo   int
	dead   bool
	reaped bool
}

func newTableau(slots, senders, packets int) *tableau {
	g, err := newGeometry(minMTU+inlineMax, slots)
	if err != nil {
		panic(err)
	}
	w := &tableau{mem: make([]byte, g.size())}
	w.rx = newReceiver(newRing(w.mem, g))
	for i := range slots {
		w.free = append(w.free, int32(i))
	}
	for i := range senders {
		s := stepper{todo: packets, out: sender{ring: w.rx.ring, self: makeIdent(uint16(i+1), 99)}}
		s.out.register(uint32(i), device.GID{byte(i + 1)})
		s.out.aim(0)
		w.senders = append(w.senders, s)
	}
	return w
}

// copyTo makes to the same, reusing its memory.
func (w *tableau) copyTo(to *tableau) {
	if to.mem == nil {
		to.mem = make([]byte, len(w.mem))
	}
	copy(to.mem[:sendersAt+64], w.mem)
	copy(to.mem[postsAt:], w.mem[postsAt:])
	r := newRing(to.mem, w.rx.geometry)
	places, aside := append(to.rx.own[:0], w.rx.own...), append(to.rx.aside[:0], w.rx.aside...)
	mem, senders := to.mem, append(to.senders[:0], w.senders...)
	later := append(to.rx.later[:0], w.rx.later...)
	free, got := append(to.free[:0], w.free...), append(to.got[:0], w.got...)
	*to = *w
	to.mem, to.senders, to.free, to.got = mem, senders, free, got
	to.rx.ring, to.rx.own, to.rx.aside, to.rx.later = r, places, aside, later
	to.rx.lay()
	for i := range to.senders {
		out := &to.senders[i].out
		out.ring, out.entry = r, &r.senders[out.me]
		out.aim(out.hint)
	}
}

var seed = maphash.MakeSeed()

// key distinguishes states (except for one chance in 2^64 for each pair).
func (w *tableau) key() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.Write(w.mem[headerBytes : sendersAt+64])
	_, _ = h.Write(w.mem[postsAt:])
	put := func(vs ...uint64) {
		for _, v := range vs {
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], v)
			_, _ = h.Write(b[:])
		}
	}
	flag := func(bs ...bool) {
		for _, b := range bs {
			if b {
				put(1)
			} else {
				put(0)
			}
		}
	}
	put(w.rx.head, w.rx.end, uint64(w.rung), uint64(w.arms), uint64(len(w.rx.aside)), uint64(len(w.free)), uint64(len(w.got)), uint64(len(w.rx.later)))
	for _, l := range w.rx.later {
		put(uint64(l))
	}
	for _, p := range w.rx.own {
		put(p.pos, uint64(p.want))
	}
	for _, a := range w.rx.aside {
		put(uint64(a))
	}
	for _, f := range w.free {
		put(uint64(f))
	}
	for _, g := range w.got {
		put(uint64(g))
	}
	flag(w.flush, w.asleep, w.arming)
	for i := range w.senders {
		s := &w.senders[i]
		flag(s.busy, s.ringer, s.dead, s.reaped, s.op.all)
		put(uint64(s.sent), s.out.hint, s.out.dry)
		if s.busy {
			put(uint64(s.op.at), uint64(s.op.result), uint64(s.op.looks), s.op.pos, s.op.seen, uint64(s.op.w))
		}
	}
	return h.Sum64()
}

// load is packet n of sender i: it identifies itself and shows whether it is
// complete. Odd ones are too long for a cell.
func load(i, n int) []byte {
	b := make([]byte, 4)
	if n&1 == 1 {
		b = make([]byte, inlineMax+8)
	}
	for at := 0; at < len(b); at += 2 {
		binary.LittleEndian.PutUint16(b[at:], uint16(i<<8|n))
	}
	return b
}

// stepSender moves sender i on by one access to the ring, if it has something to
// do. A kill is just that it never moves again.
func (w *tableau) stepSender(i int) bool {
	s := &w.senders[i]
	switch {
	case s.dead:
		return false
	case s.ringer:
		w.rung++
		s.ringer = false
		return true
	case !s.busy && s.sent == s.todo:
		return false
	case !s.busy:
		s.op, s.busy = s.out.begin(s.next(i), 0), true
	}
	s.out.step(&s.op)
	if s.op.at == stepOver {
		s.end()
	}
	return true
}

// next is the packet that sender i sends next.
func (s *stepper) next(i int) *device.SendWR {
	p := load(i, s.sent)
	return &device.SendWR{Header: p[:2], Payload: p[2:], Begins: true}
}

// end ends op, whose result is known.
func (s *stepper) end() {
	s.busy = false
	s.ringer = s.op.result == sentWake
	if s.ringer || s.op.result == sent {
		s.sent++
	}
}

// poll takes one packet, as the port's Poll does.
func (w *tableau) poll() (bool, error) {
	if w.arming || w.asleep && w.rung == 0 {
		return false, nil
	}
	w.asleep, w.rung = false, 0
	w.rx.unpark()
	var p packet
	if !w.rx.nextAside(&p) && !w.rx.lookNext(&p) {
		return false, nil
	}
	w.free = append(w.free, p.slot)
	if p.w.kind() != ready {
		return true, fmt.Errorf("slot %d: nonsense", p.slot)
	}
	b := w.rx.slotBytes(int(p.slot))[:p.w.length()]
	i, n := int(b[1]), int(b[0])
	if i >= len(w.senders) || p.who != w.senders[i].out.self || string(b) != string(load(i, n)) {
		return true, fmt.Errorf("slot %d: packet of %v is not whole: % x", p.slot, p.who, b)
	}
	id := uint16(i<<8 | n)
	if slices.Contains(w.got, id) {
		return true, fmt.Errorf("packet %04x came twice", id)
	}
	w.got = append(w.got, id)
	return true, nil
}

// postOne posts a slot without telling the senders that look.
func (w *tableau) postOne() bool {
	if len(w.free) == 0 || w.asleep || w.arming {
		return false
	}
	w.rx.postSlot(w.free[0])
	w.free = w.free[1:]
	w.flush = true
	return true
}

// arm is Arm in two steps.
func (w *tableau) arm() bool {
	switch {
	case w.asleep || w.flush:
		return false
	case !w.arming && w.arms == 0:
		return false
	case !w.arming:
		w.arms--
		w.rx.park()
		w.arming = true
	default:
		w.arming = false
		if w.asleep = !w.rx.pending(); !w.asleep {
			w.rx.unpark()
			w.rung = 0
		}
	}
	return true
}

// reap takes back the claims and the entry of a dead sender i.
func (w *tableau) reap(i int) error {
	w.asleep, w.arming = false, false // the watcher rings
	w.rx.unpark()
	end := w.rx.end
	for !w.rx.drained(end) {
		if _, err := w.poll(); err != nil {
			return err
		}
	}
	var p packet
	for w.rx.reclaim(w.senders[i].out.me, &p) {
		w.free = append(w.free, p.slot)
	}
	w.senders[i].reaped = true
	return nil
}

// order is the invariant behind the search for posts: the window is no longer than
// the ring, and everything before the tail has been claimed.
func (w *tableau) order() error {
	r := &w.rx
	if r.end-r.head > uint64(r.cells) {
		return fmt.Errorf("head %d, end %d", r.head, r.end)
	}
	for pos := r.head; pos != r.end && int64(r.ctl.tail.Load()-pos) > 0; pos++ {
		i := pos & r.mask
		if r.own[i].pos == pos && r.own[i].hasSlot() && r.readState(i, true).w.kind() == posted {
			return fmt.Errorf("the post at %d was skipped, the tail is %d", pos, r.ctl.tail.Load())
		}
	}
	return nil
}

package shm

import (
	"encoding/binary"
	"flag"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/internal/testenv"
)

// explorer visits every reachable state of a tableau: any order of the accesses of
// senders and receiver, and the death of senders after any of them.
type explorer struct {
	seen  map[state]struct{}
	stack []tableau // one per depth, reused
	path  []string
	count map[string]int
	pair  [2]tableau // scratch of straight
}

type state struct {
	kills int
	key   uint64
}

func (e *explorer) visit(w *tableau, kills int) error {
	key := state{kills, w.key()}
	if _, ok := e.seen[key]; ok {
		return nil
	}
	e.seen[key] = struct{}{}
	if err := e.check(w); err != nil {
		return fmt.Errorf("%w\n%s", err, strings.Join(e.path, "\n"))
	}
	for i := range w.senders {
		if err := e.straight(w, i); err != nil {
			return fmt.Errorf("%w\n%s", err, strings.Join(e.path, "\n"))
		}
	}
	depth := len(e.path)
	for depth >= len(e.stack) {
		e.stack = append(e.stack, tableau{})
	}
	for _, m := range e.moves(w, kills) {
		next := e.stack[depth]
		w.copyTo(&next)
		moved, err := m.do(&next)
		e.path = append(e.path, m.name)
		if err == nil && moved {
			e.count[m.name]++
			err = e.visit(&next, kills-m.kills)
		}
		e.path = e.path[:depth]
		e.stack[depth] = next
		if err != nil {
			return err
		}
	}
	return nil
}

// straight: send does what the steps do, one after the other.
func (e *explorer) straight(w *tableau, i int) error {
	if s := &w.senders[i]; s.dead || s.busy || s.ringer || s.rings || s.rang || s.sent == s.todo {
		return nil
	}
	a, b := &e.pair[0], &e.pair[1]
	w.copyTo(a)
	w.copyTo(b)
	for a.stepSender(i); a.senders[i].busy; {
		a.stepSender(i)
	}
	s := &b.senders[i]
	s.op = sendOp{all: a.senders[i].op.all, result: s.out.send(s.next(i), 0)}
	s.end()
	if got, want := s.op.result, a.senders[i].op.result; got != want || b.key() != a.key() {
		return fmt.Errorf("sender %d: send is not as its steps are: %d, %d", i, got, want)
	}
	return nil
}

var stepNames = func() (names [2][stepOver + 1]string) {
	for i := range names {
		for s := range names[i] {
			names[i][s] = fmt.Sprintf("sender %d step %d", i, s)
		}
	}
	return names
}()

type move struct {
	name  string
	kills int
	do    func(w *tableau) (bool, error)
}

func (e *explorer) moves(w *tableau, kills int) []move {
	ms := []move{
		{name: "poll", do: (*tableau).poll},
		{name: "post", do: func(w *tableau) (bool, error) { return w.postOne(), nil }},
		{name: "arm", do: func(w *tableau) (bool, error) { return w.arm(), nil }},
		{name: "flush", do: func(w *tableau) (bool, error) {
			moved := w.flush && !w.arming
			if moved {
				w.flush = false
				w.rx.flush()
			}
			return moved, nil
		}},
	}
	for i := range w.senders {
		s := &w.senders[i]
		if s.dead && !s.reaped {
			ms = append(ms, move{name: "reap", do: func(w *tableau) (bool, error) { return true, w.reap(i) }})
		}
		if s.dead {
			continue
		}
		at := stepSelf
		if s.ringer || s.rings || s.rang {
			at = stepOver
		} else if s.busy {
			at = s.op.at
		}
		ms = append(ms, move{name: stepNames[i][at], do: func(w *tableau) (bool, error) { return w.stepSender(i), nil }})
		if kills > 0 && (s.busy || s.ringer || s.rings) {
			ms = append(ms, move{name: "kill", kills: 1, do: func(w *tableau) (bool, error) {
				w.senders[i].dead = true
				return true, nil
			}})
		}
	}
	return ms
}

// check is the invariant: once every sender has come to an end no receiver sleeps
// on a packet, every packet that was sent arrives, and every slot is there.
func (e *explorer) check(w *tableau) error {
	if err := w.order(); err != nil {
		return err
	}
	for i := range w.senders {
		if s := &w.senders[i]; !s.dead && (s.busy || s.ringer || s.rings || s.rang) || s.dead && !s.reaped {
			return nil
		}
	}
	var end tableau
	w.copyTo(&end)
	if end.asleep && end.rung == 0 && end.rx.pending() {
		return fmt.Errorf("asleep with a packet")
	}
	end.rung, end.arming = 1, false
	end.rx.patience = 0
	for {
		more, err := end.poll()
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	got := map[uint16]bool{}
	for _, id := range end.got {
		got[id] = true
	}
	for i := range end.senders {
		for n := range end.senders[i].sent {
			if !got[uint16(i<<8|n)] {
				return fmt.Errorf("packet %d of sender %d was lost", n, i)
			}
		}
		if last := uint16(i<<8 | end.senders[i].sent); got[last] && !end.senders[i].dead {
			return fmt.Errorf("packet %04x came and was not sent", last)
		}
	}
	slots := len(end.free)
	for _, p := range end.rx.own {
		if p.hasSlot() {
			slots++
		}
	}
	slots += len(end.rx.later)
	if slots != end.rx.slots || len(end.rx.aside) > 0 {
		return fmt.Errorf("%d slots of %d, aside %v", slots, end.rx.slots, end.rx.aside)
	}
	return nil
}

// thorough is off by default since the large spaces take a minute; the others have every step, every pair of accesses and a death after each.
var thorough = flag.Bool("thorough", false, "visit the largest state space, too")

func TestInterleavings(t *testing.T) {
	for _, c := range []struct {
		name                           string
		large                          bool
		slots, senders, packets, kills int
		arms, patience                 int
	}{
		{"one sender", false, 2, 1, 3, 1, 2, 0},
		{"one sender, one slot", false, 1, 1, 2, 1, 2, 1 << 30},
		{"two senders, one slot", false, 1, 2, 1, 1, 1, 0},
		{"two senders, awake", false, 2, 2, 1, 1, 0, 0},
		{"two senders, patient", true, 2, 2, 1, 1, 0, 1 << 30},
		{"two senders, two deaths", true, 2, 2, 1, 2, 1, 0}, // 7 million states
	} {
		if (c.large || raceOn && c.senders > 1) && !*thorough {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if c.senders > 1 && testenv.Short() {
				if c.slots > 1 {
					testenv.Long(t, "two senders have one slot, too")
				}
				c.arms = 0 // or it takes seconds
			}
			w := newTableau(c.slots, c.senders, c.packets)
			w.rx.patience, w.arms = c.patience, c.arms
			e := &explorer{seen: map[state]struct{}{}, count: map[string]int{}}
			require.NoError(t, e.visit(w, c.kills))
			t.Logf("%d states", len(e.seen))
			require.Positive(t, e.count["reap"])
			for s := stepSelf; s < stepOver; s++ {
				require.Positive(t, e.count[stepNames[0][s]], "step %d was never taken", s)
			}
		})
	}
}

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
	rings  bool // the receiver knows that
	rang   bool // has done so
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
		flag(s.busy, s.ringer, s.rings, s.rang, s.dead, s.reaped, s.op.all)
		sleep := uint64(0) // of no use, or of an earlier sleep: its number does not come again
		if (s.ringer || s.rings || s.rang) && s.out.sleep>>sleepShift == w.rx.sleeps {
			sleep = uint64(s.out.sleep & (1<<sleepShift - 1))
		}
		put(uint64(s.sent), s.out.hint, s.out.dry, sleep)
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
		s.out.rings()
		s.ringer, s.rings = false, true
		return true
	case s.rings:
		w.rung++
		s.rings, s.rang = false, true
		return true
	case s.rang:
		s.out.roused()
		s.rang = false
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

// TestRingerStandsStill: a sender that was stopped before it rang keeps no other from ringing.
func TestRingerStandsStill(t *testing.T) {
	w := newTableau(8, 2, 2)
	for w.postOne() {
	}
	w.rx.flush()
	w.rx.park()
	for i := range w.senders {
		s := &w.senders[i]
		require.Equal(t, sentWake, s.out.send(s.next(i), 0))
	}
	w.senders[0].out.rings()
	require.Equal(t, sentWake, w.senders[1].out.send(w.senders[1].next(1), 0), "it has not rung yet")
	require.False(t, w.rx.unpark(), "the doorbell is to be emptied")
	w.rx.park()
	require.Equal(t, sentWake, w.senders[0].out.send(w.senders[0].next(0), 0))
	w.senders[0].out.rings()
	w.senders[0].out.roused()
	require.Equal(t, sent, w.senders[1].out.send(w.senders[1].next(1), 0), "it has rung")
	require.False(t, w.rx.unpark())
	w.rx.park()
	w.senders[1].out.roused()
	require.True(t, w.rx.unpark(), "that was for another sleep")
}

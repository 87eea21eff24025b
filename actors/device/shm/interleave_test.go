package shm

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
	if s := &w.senders[i]; s.dead || s.busy || s.ringer || s.sent == s.todo {
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
		if s.ringer {
			at = stepOver
		} else if s.busy {
			at = s.op.at
		}
		ms = append(ms, move{name: stepNames[i][at], do: func(w *tableau) (bool, error) { return w.stepSender(i), nil }})
		if kills > 0 && (s.busy || s.ringer) {
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
		if s := &w.senders[i]; !s.dead && (s.busy || s.ringer) || s.dead && !s.reaped {
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
			if testing.Short() && c.slots > 1 {
				t.Skip("long: runs without -short")
			}
			w := newTableau(c.slots, c.senders, c.packets)
			w.rx.patience, w.arms = c.patience, c.arms
			e := &explorer{seen: map[state]struct{}{}, count: map[string]int{}}
			require.NoError(t, e.visit(w, c.kills))
			t.Logf("%d states", len(e.seen))
			require.Positive(t, e.count["reap"])
			for s := stepSelf; s < stepOver; s++ {
				if s != stepWake || c.arms > 0 {
					require.Positive(t, e.count[stepNames[0][s]], "step %d was never taken", s)
				}
			}
		})
	}
}

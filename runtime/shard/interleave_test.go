//go:build interleave

package shard

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/sys"
)

// A scenario is played in the orders of its routines' steps that have few delays: places where it isn't
// the first routine that goes on which could (the one that is at it, then the helper, then the others as they
// began), or where the time of a sleep is up early. Those are up to maxOrders, with one delay first, then with two and so
// on; then come as many with delays at random places, few and many.
const (
	maxDelays = 4
	fair      = 64   // steps in a row, after which a routine that spins makes way
	endless   = 5000 // steps of a run that does not end
	oneInFew  = 8
	oneInMany = 64
)

var maxOrders = flag.Int("orders", 2000, "how many orders of each kind to play of each scenario")

// routine is a goroutine whose steps the test orders.
type routine struct {
	name  string
	next  func() (struct{}, bool)
	yield func(struct{}) bool

	over   bool
	timed  bool
	ready  func() bool // nil: it can go on
	timeUp bool
}

func (r *routine) canGoOn() bool { return !r.over && (r.ready == nil || r.ready()) }

// play is one run of a scenario.
type play struct {
	path    []turning // the choices, as far as they are given, and then as they were made
	at      int
	late    bool       // the helper stands by, until branch
	branch  bool       // choices are made, and not just the first taken
	left    int        // delays that may still come
	rand    *rand.Rand // makes the choices beyond the path, if it isn't nil
	rare    int        // one choice in so many is not the first
	all     []*routine
	cur     *routine
	row     int // steps in a row of cur
	steps   int
	logging bool
	log     []string

	s      *Shard
	helper *routine
	ran    atomic.Int64 // posts that were run
	posted atomic.Int64
	dev    *chime
	polled *Polled
}

// turning is a place with more than one way on.
type turning struct{ taken, ways int }

// step is sys.OnStep.
func (p *play) step(timed bool, ready func() bool) bool {
	r := p.cur
	if r == nil { // the test itself, which waits for nothing
		return false
	}
	r.timed, r.ready, r.timeUp = timed, ready, false
	if p.logging {
		p.note(r, ready != nil)
	}
	if ready == nil || p.branch || !ready() {
		r.yield(struct{}{})
	}
	r.ready = nil
	return r.timeUp
}

func (p *play) note(r *routine, blocks bool) {
	var pcs [12]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs[:])])
	var at []string
	for len(at) < 4 {
		f, more := frames.Next()
		name := f.Function[strings.LastIndexByte(f.Function, '.')+1:]
		at = append(at, fmt.Sprintf("%s:%d", name, f.Line))
		if !more {
			break
		}
	}
	p.log = append(p.log, fmt.Sprintf("%s %v %s", r.name, blocks, strings.Join(at, " < ")))
}

// begin adds a routine.
func (p *play) begin(name string, f func()) *routine {
	r := &routine{name: name}
	next, _ := iter.Pull(func(yield func(struct{}) bool) {
		r.yield = yield
		f()
		r.over = true
	})
	r.next = next
	p.all = append(p.all, r)
	return r
}

// way is how a play may go on: with a routine, perhaps since its time is up.
type way struct {
	r      *routine
	timeUp bool
}

// ways lists how the play may go on.
func (p *play) ways(buf []way) []way {
	var early []way
	busy := p.cur != nil && p.cur.canGoOn()
	if busy && p.row < fair {
		buf = append(buf, way{r: p.cur})
		if !p.branch || p.left == 0 {
			return buf
		}
	}
	for _, r := range p.all {
		switch {
		case r == p.cur && busy:
		case r.canGoOn():
			buf = append(buf, way{r: r})
		case !r.over && r.timed && p.branch && p.left > 0:
			early = append(early, way{r: r, timeUp: true})
		}
	}
	if len(buf) == 0 && busy {
		buf = append(buf, way{r: p.cur})
	}
	// With nothing else to do the helper's time is up, but not in its bed.
	if h := p.helper; len(buf) == 0 && !h.over && h.timed && !p.s.sleeper.abed.Load() && (p.branch || !p.late) {
		buf, early = append(buf, way{r: h, timeUp: true}), nil
	}
	if len(buf) == 0 && len(early) > 0 {
		buf = append(buf, way{}) // all wait, if no time is up
	}
	if buf = append(buf, early...); p.left == 0 && len(buf) > 0 {
		buf = buf[:1]
	}
	return buf
}

// endlessly reports whether who sleeps for the shard does so without a time limit.
func (p *play) endlessly() bool {
	z := &p.s.sleeper
	switch z.seat.Load() {
	case seatWaiter:
		return z.until == never
	case seatHelper:
		return clock.Time(z.due.Load()) == never
	default:
		return true
	}
}

// settle goes on until all routines wait.
func (p *play) settle() error {
	var buf [16]way
	for {
		ways := p.ways(buf[:0])
		if len(ways) == 0 {
			return nil
		}
		w := ways[0]
		if p.branch && len(ways) > 1 {
			if p.at == len(p.path) {
				p.path = append(p.path, turning{0, len(ways)})
				if p.rand != nil && p.rand.IntN(p.rare) == 0 {
					p.path[p.at].taken = p.rand.IntN(len(ways))
				}
			}
			if p.path[p.at].ways != len(ways) {
				return errOther
			}
			if w = ways[p.path[p.at].taken]; p.path[p.at].taken > 0 {
				p.left--
			}
			p.at++
		}
		if w.r == nil {
			return nil
		}
		if p.cur != w.r {
			p.cur, p.row = w.r, 0
		}
		p.row++
		w.r.timeUp = w.timeUp
		if _, more := w.r.next(); !more {
			w.r.over = true
		}
		if p.steps++; p.steps > endless {
			return errors.New("it goes on for ever")
		}
	}
}

// chime is a poller whose work is announced by a descriptor once it is armed.
type chime struct {
	news, armed atomic.Int32
	fd          int
	taken       int32
}

func (c *chime) Poll(*Shard) int {
	n := c.news.Swap(0)
	c.taken += n
	return int(n)
}
func (c *chime) Flush(*Shard) {}
func (c *chime) FDs() []int   { return []int{c.fd} }
func (c *chime) Arm() bool {
	sys.DrainEvent(c.fd)
	c.armed.Store(1)
	sys.Step()
	return c.news.Load() == 0
}

func (c *chime) bring() {
	c.news.Add(1)
	sys.Step()
	if c.armed.CompareAndSwap(1, 0) {
		sys.Step()
		sys.SignalEvent(c.fd)
	}
}

func newChime() *chime {
	fd, _, err := sys.OpenEvent()
	if err != nil {
		panic(err)
	}
	return &chime{fd: fd}
}

// ending is a context that a routine ends.
type ending struct {
	context.Context
	done chan struct{}
	err  error
	f    func()
}

func newEnding() *ending { return &ending{Context: context.Background(), done: make(chan struct{})} }

func (e *ending) Done() <-chan struct{} { return e.done }
func (e *ending) Err() error            { return e.err }
func (e *ending) end() {
	e.err = context.Canceled
	close(e.done)
	sys.Step()
	if e.f != nil {
		e.f()
	}
}

func after(ctx context.Context, f func()) func() bool {
	e := ctx.(*ending)
	if e.f = f; e.err != nil {
		f()
	}
	return func() bool {
		e.f = nil
		return true
	}
}

func newPlay(t *testing.T, path []turning) *play {
	s, err := New(Config{External: true, Seed: 1})
	require.NoError(t, err)
	s.external, s.lent, s.idling.spin = false, true, 0
	s.claims.Store(true)
	s.inbox = newInbox(4)
	s.delivery.inbox = s.inbox
	require.NoError(t, s.sleeper.open())
	p := &play{path: path, s: s, dev: newChime()}
	p.polled = &Polled{p: p.dev, due: &always}
	s.pollers.add(p.polled)
	p.helper = p.begin("helper", func() {
		if p.late {
			s.sleeper.standBy(maxInterval)
		}
		h := helper{s: s}
		h.run()
	})
	return p
}

// post has the owner of the shard call f.
func (p *play) post(f func()) {
	p.posted.Add(1)
	p.s.remote(nil, func() {
		p.ran.Add(1)
		f()
	}, laneCall)
}

// waits is a routine that waits once for g.
func (p *play) waits(name string, ctx context.Context, g *Signal) {
	p.begin(name, func() {
		err := p.s.Wait(ctx, g)
		if err == nil && !g.IsSet() || err != nil && ctx.Err() == nil && !p.s.closing.Load() {
			panic(fmt.Sprintf("%s: %v", name, err))
		}
	})
}

// check finds out whether the shard, of which all goroutines wait, goes on when there is news of any kind.
func (p *play) check(signals []*Signal, ended []context.Context) error {
	p.branch, p.cur = false, nil
	s := p.s
	look := func(what string) error {
		if err := p.settle(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		p.cur = nil
		switch {
		case p.ran.Load() != p.posted.Load() && !s.closing.Load():
			return fmt.Errorf("%s: %d of %d posts were run", what, p.ran.Load(), p.posted.Load())
		case p.dev.news.Load() != 0 && !s.closing.Load():
			return fmt.Errorf("%s: the device has news", what)
		case s.owner.g.Load() != 0:
			return fmt.Errorf("%s: the shard has an owner", what)
		}
		if !s.closing.Load() && s.wheel.next != never {
			if p.endlessly() {
				return fmt.Errorf("%s: nobody wakes for the timer", what)
			}
		}
		for i, r := range p.all {
			for j, g := range signals {
				if r.name == fmt.Sprintf("w%d", j+1) && !r.over && (g.IsSet() || ended[j].Err() != nil || s.closing.Load()) {
					return fmt.Errorf("%s: routine %d, %s, waits on", what, i, r.name)
				}
			}
			if !r.over && r != p.helper && r.name[0] != 'w' {
				return fmt.Errorf("%s: %s isn't over", what, r.name)
			}
		}
		return nil
	}
	if err := look("then"); err != nil {
		return err
	}
	news := []struct {
		what string
		f    func()
	}{
		{"a post", func() { p.post(func() {}) }},
		{"the device", p.dev.bring},
		{"a post again", func() { p.post(func() {}) }},
		{"signals are set", func() {
			for _, g := range signals {
				g.Set()
			}
		}},
		{"a post without a waiter", func() { p.post(func() {}) }},
		{"the device without a waiter", p.dev.bring},
		{"close", func() { _ = s.Close() }},
	}
	for _, n := range news {
		if s.closing.Load() && n.what != "close" {
			continue
		}
		p.begin("x "+n.what, n.f)
		if err := look(n.what); err != nil {
			return err
		}
	}
	for _, r := range p.all {
		if !r.over {
			return fmt.Errorf("at the end: %s isn't over", r.name)
		}
	}
	return nil
}

// explore plays a scenario in all orders. w1, w2 and so on are the routines that wait.
func explore(t *testing.T, waiters int, before, then func(p *play, sig []*Signal, ctx []*ending)) {
	other, err := New(Config{External: true}) // so that the actor system is made once
	require.NoError(t, err)
	defer other.Close()
	began := time.Now()
	oldSpin, oldAfter := watchSpin, afterFunc
	watchSpin, afterFunc = 0, after
	t.Cleanup(func() {
		watchSpin, afterFunc = oldSpin, oldAfter
		sys.OnStep = func(bool, func() bool) bool { return false }
	})
	one := func(path []turning, left int, random *rand.Rand, logging bool) (*play, error) {
		p := newPlay(t, path)
		p.logging = logging
		sys.OnStep = p.step
		defer func() { p.cur = nil; _ = sys.CloseEvent(p.dev.fd) }()
		var sig []*Signal
		var ctx []*ending
		var ended []context.Context
		for range waiters {
			sig, ctx = append(sig, new(Signal)), append(ctx, newEnding())
			ended = append(ended, ctx[len(ctx)-1])
		}
		before(p, sig, ctx)
		if err := p.settle(); err != nil {
			return p, err
		}
		p.cur, p.branch, p.left, p.rand, p.rare = nil, true, left, random, oneInFew
		if random != nil && random.IntN(2) == 0 {
			p.rare = oneInMany
		}
		then(p, sig, ctx)
		err := p.settle()
		switch err {
		case nil:
			p.late = false
			err = p.check(sig, ended)
		case errOther: // so that its goroutines end
			p.branch, p.cur = false, nil
			p.begin("close", func() { _ = p.s.Close() })
			_ = p.settle()
		}
		return p, err
	}
	again := func(path []turning, left int, random *rand.Rand) []turning {
		t.Helper()
		var p *play
		var err error
		for range 100 {
			if p, err = one(path, left, random, false); err != errOther { //nolint:errorlint // it is ours
				break
			}
		}
		if err != nil {
			for range 100 {
				var same error
				if p, same = one(p.path, left, nil, true); same != nil && same.Error() == err.Error() {
					break
				}
			}
			t.Fatalf("%v\n%s", err, strings.Join(p.log, "\n"))
		}
		return p.path[:p.at]
	}
	runs, all := 0, 0 // all with so many delays
	for all < maxDelays && runs < *maxOrders {
		more := true
		for path := []turning(nil); more && runs < *maxOrders; runs++ {
			path = again(path, all+1, nil)
			i := len(path) - 1
			for i >= 0 && path[i].taken+1 == path[i].ways {
				i--
			}
			if path, more = path[:i+1], i >= 0; more {
				path[i].taken++
			}
		}
		if !more {
			all++
		}
	}
	for seed := range uint64(*maxOrders) { //nolint:gosec // it is above 0
		again(nil, math.MaxInt, rand.New(rand.NewPCG(seed, 0)))
	}
	t.Logf("%d orders, all with up to %d delays, %d random ones: %v", runs, all, *maxOrders, time.Since(began).Round(time.Millisecond))
}

// errOther: a select had more than one way to go on, and has taken another one than the last time.
var errOther = errors.New("the ways differ")

// inBed has the first n waiters wait, and so the first sleep in the seat, and the helper off.
func inBed(n int) func(p *play, sig []*Signal, ctx []*ending) {
	return func(p *play, sig []*Signal, ctx []*ending) {
		for i := range n {
			p.waits(fmt.Sprintf("w%d", i+1), ctx[i], sig[i])
			if err := p.settle(); err != nil {
				panic(err)
			}
			p.cur = nil
		}
	}
}

// lateHelper is inBed, but the helper stands by.
func lateHelper(n int) func(p *play, sig []*Signal, ctx []*ending) {
	return func(p *play, sig []*Signal, ctx []*ending) {
		p.late = true
		inBed(n)(p, sig, ctx)
	}
}

// serving leaves the shard to the helper.
func serving(*play, []*Signal, []*ending) {}

// TestTwoWakersInterleaved: a sleeper, a post and a device's bell.
func TestTwoWakersInterleaved(t *testing.T) {
	explore(t, 1, inBed(1), func(p *play, sig []*Signal, _ []*ending) {
		p.begin("post", func() { p.post(sig[0].SetByOwner) })
		p.begin("device", p.dev.bring)
	})
}

// TestFirstSleeperInterleaved: a waiter goes to bed while the helper serves, is in bed, or looks.
func TestFirstSleeperInterleaved(t *testing.T) {
	explore(t, 1, serving, func(p *play, sig []*Signal, ctx []*ending) {
		p.waits("w1", ctx[0], sig[0])
		p.begin("post", func() { p.post(func() {}) })
		p.begin("device", p.dev.bring)
	})
}

// TestSetElsewhereInterleaved: a signal is set by another goroutine, once and twice.
func TestSetElsewhereInterleaved(t *testing.T) {
	explore(t, 2, inBed(1), func(p *play, sig []*Signal, ctx []*ending) {
		p.waits("w2", ctx[1], sig[1])
		p.begin("set", sig[0].Set)
		p.begin("set again", sig[0].Set)
		p.begin("post", func() { p.post(func() {}) })
	})
}

// TestWaiterLeavesInterleaved: the sleeper leaves while another waiter parks, or is parked.
func TestWaiterLeavesInterleaved(t *testing.T) {
	for n := 1; n <= 2; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			explore(t, 2, inBed(n), func(p *play, sig []*Signal, ctx []*ending) {
				if n == 1 {
					p.waits("w2", ctx[1], sig[1])
				}
				p.begin("post", func() { p.post(sig[0].SetByOwner) })
				p.begin("device", p.dev.bring)
			})
		})
	}
}

// TestBothSetInterleaved: of two waiters the signal of one is set in a turn, and that of the other by another goroutine.
func TestBothSetInterleaved(t *testing.T) {
	for n := 0; n <= 2; n++ {
		for first := range 2 {
			t.Run(fmt.Sprint(n, first), func(t *testing.T) {
				explore(t, 3, inBed(n), func(p *play, sig []*Signal, ctx []*ending) {
					for i := n; i < 2; i++ {
						p.waits(fmt.Sprintf("w%d", i+1), ctx[i], sig[i])
					}
					p.begin("set", sig[first].Set)
					p.begin("post", func() { p.post(sig[1-first].SetByOwner) })
				})
			})
		}
	}
}

// TestParkedThirdInterleaved: three waiters, of which the first two leave.
func TestParkedThirdInterleaved(t *testing.T) {
	explore(t, 3, inBed(3), func(p *play, sig []*Signal, ctx []*ending) {
		p.begin("set", sig[1].Set)
		p.begin("post", func() { p.post(sig[0].SetByOwner) })
		p.begin("end", ctx[1].end)
	})
}

// TestDriverInterleaved: a goroutine drives the shard, and leaves, while a waiter goes to bed or sleeps.
func TestDriverInterleaved(t *testing.T) {
	for n := 0; n <= 1; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			explore(t, 1, inBed(n), func(p *play, sig []*Signal, ctx []*ending) {
				if n == 0 {
					p.waits("w1", ctx[0], sig[0])
				}
				for i := range 2 {
					p.begin(fmt.Sprint("claim", i), func() {
						if p.s.Claim() {
							p.s.Run(p.polled)
							p.s.Release()
						}
					})
				}
				p.begin("drive", func() { p.s.Drive() })
				p.begin("post", func() { p.post(func() {}) })
				p.begin("device", p.dev.bring)
			})
		})
	}
}

// TestTimerInterleaved: a driver leaves a timer behind, also in a shard to which nothing else happens.
func TestTimerInterleaved(t *testing.T) {
	for n := 0; n <= 3; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			explore(t, 2, inBed(min(n, 2)), func(p *play, sig []*Signal, ctx []*ending) {
				if n == 0 {
					p.waits("w1", ctx[0], sig[0])
				}
				p.begin("timer", func() {
					if p.s.Adopt() {
						p.s.StartTimer(new(Timer), time.Hour, Ref{}, nil)
						p.s.Release()
					}
				})
				if n < 3 {
					p.begin("post", func() { p.post(sig[0].SetByOwner) })
				}
			})
		})
	}
}

// TestContextEndsInterleaved: the context of a waiter ends, in bed and parked, while there is news.
func TestContextEndsInterleaved(t *testing.T) {
	for n := 0; n <= 2; n++ {
		for first := range 2 {
			t.Run(fmt.Sprint(n, first), func(t *testing.T) {
				explore(t, 2, inBed(n), func(p *play, sig []*Signal, ctx []*ending) {
					for i := n; i < 2; i++ {
						p.waits(fmt.Sprintf("w%d", i+1), ctx[i], sig[i])
					}
					p.begin("end", ctx[first].end)
					p.begin("post", func() { p.post(func() {}) })
					p.begin("device", p.dev.bring)
				})
			})
		}
	}
}

// TestClosesInterleaved: the shard is closed while goroutines wait, post and drive.
func TestClosesInterleaved(t *testing.T) {
	for n := 0; n <= 2; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			explore(t, 2, inBed(n), func(p *play, sig []*Signal, ctx []*ending) {
				for i := n; i < 2; i++ {
					p.waits(fmt.Sprintf("w%d", i+1), ctx[i], sig[i])
				}
				p.begin("close", func() { _ = p.s.Close() })
				p.begin("set", sig[0].Set)
				p.begin("drive", func() { p.s.Drive() })
			})
		})
	}
}

// TestHelperRestsInterleaved: the helper goes to rest while the sleeper wakes and leaves.
func TestHelperRestsInterleaved(t *testing.T) {
	for n := 0; n <= 2; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			explore(t, 2, lateHelper(n), func(p *play, sig []*Signal, ctx []*ending) {
				if n == 0 {
					p.waits("w1", ctx[0], sig[0])
				}
				p.begin("set", sig[0].Set)
				p.begin("post", func() { p.post(func() {}) })
			})
		})
	}
}

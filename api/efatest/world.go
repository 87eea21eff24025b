package efatest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
)

// Config describes a world. The zero value works.
type Config struct {
	Seed uint64
	// Fabric is how the network behaves. Seed and Virtual are set by New.
	Fabric FabricConfig
	// MaxTime bounds the simulated time before Run fails; 0: 10 minutes.
	MaxTime time.Duration
	// Log gets a line for each event of the fabric and each call of Logf; nil:
	// none. Two runs of a seed write the same bytes.
	Log io.Writer
}

// World is a simulation: a fabric, and programs on it. One goroutine at a time
// may use it: the one that made it, or the program that runs.
type World struct {
	cfg     Config
	fab     *Fabric
	rng     *rand.Rand
	shards  []*node
	turning *node // nil outside of turn
	progs   []*program
	cur     *program
	alarms  []*alarm

	queueAll bool // set by tests
}

// node is a shard and the world's state for it.
type node struct {
	shard  *shard.Shard
	asleep bool // it had nothing to do and was not woken since
	qps    []*simQP
	until  clock.Time // it is stopped
}

// awake reports whether it may take a turn.
func (w *World) awake(n *node) bool { return !n.asleep && n.until <= w.now() }

// Errors of Run when programs cannot go on.
var (
	// ErrStuck: every program waits for something that will never happen.
	ErrStuck = errors.New("efatest: all programs wait and nothing is under way")
	// ErrMaxTime: there is always something under way, but no end.
	ErrMaxTime = errors.New("efatest: more simulated time has passed than MaxTime")
)

// New makes a world without programs.
func New(cfg Config) (*World, error) {
	cfg.Fabric.Seed, cfg.Fabric.Virtual = cfg.Seed, true
	if cfg.MaxTime == 0 {
		cfg.MaxTime = 10 * time.Minute
	}
	if cfg.Log != nil {
		write, hook := sim.TextLog(cfg.Log), cfg.Fabric.Hook
		cfg.Fabric.Hook = func(e sim.Event) {
			write(e)
			if hook != nil {
				hook(e)
			}
		}
	}
	f, err := sim.New(cfg.Fabric)
	if err != nil {
		return nil, fmt.Errorf("efatest: %w", err)
	}
	return &World{cfg: cfg, fab: f, rng: rand.New(rand.NewPCG(cfg.Seed, 0xefa))}, nil
}

// Fabric returns the network, to add faults.
func (w *World) Fabric() *Fabric { return w.fab }

// Rand is the world's randomness, for programs that want to be repeatable.
func (w *World) Rand() *rand.Rand { return w.rng }

// Elapsed is the simulated time that has passed.
func (w *World) Elapsed() time.Duration { return time.Duration(w.now()) }

func (w *World) now() clock.Time { return w.fab.Clock().Now() }

// Logf writes a line to Config.Log, with the time and the program that calls.
func (w *World) Logf(format string, args ...any) {
	if w.cfg.Log == nil {
		return
	}
	name := "world"
	if w.cur != nil {
		name = w.cur.name
	}
	// An incomplete log shows in the comparison with its expectation.
	_, _ = fmt.Fprintf(w.cfg.Log, "%d %s: %s\n", int64(w.now()), name, fmt.Sprintf(format, args...))
}

// Run runs the programs until all have returned, and joins their errors. It fails
// with ErrStuck or ErrMaxTime; calls of programs that had not returned by then
// fail.
func (w *World) Run() error {
	err := w.loop(func() bool {
		for _, p := range w.progs {
			if !p.done {
				return false
			}
		}
		return true
	})
	if err != nil {
		err = fmt.Errorf("%w, at %v:%s", err, w.Elapsed(), w.waiting())
		w.abandon()
	}
	errs := []error{err}
	for _, p := range w.progs {
		if p.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, p.err))
		}
	}
	return errors.Join(errs...)
}

// waiting lists the programs that have not ended.
func (w *World) waiting() string {
	var b strings.Builder
	for _, p := range w.progs {
		if !p.done {
			b.WriteByte(' ')
			b.WriteString(p.name)
		}
	}
	return b.String()
}

// loop makes one thing happen after the other until the condition holds.
func (w *World) loop(until func() bool) error {
	for !until() {
		switch {
		case w.step():
		case !w.advance():
			return ErrStuck
		case w.Elapsed() > w.cfg.MaxTime:
			return ErrMaxTime
		}
	}
	return nil
}

// step does one of the things that can happen now, as the seed has it: a program
// goes on, a shard takes a turn, the fabric delivers. False: nothing can happen.
func (w *World) step() bool {
	ready, awake := 0, 0
	for _, p := range w.progs {
		if p.ready() {
			ready++
		}
	}
	for _, n := range w.shards {
		if w.awake(n) {
			awake++
		}
	}
	all := ready + awake
	at, pending := w.fab.NextEvent()
	if pending = pending && at <= w.now(); pending {
		all++
	}
	if all == 0 {
		return false
	}
	switch k := w.rng.IntN(all); {
	case k < ready:
		w.resume(k)
	case k < ready+awake:
		w.turn(k - ready)
	default:
		w.fab.Step()
	}
	return true
}

// stir wakes all shards: a program's actions may affect any.
func (w *World) stir() {
	for _, n := range w.shards {
		n.asleep = false
	}
}

// turn runs the k-th shard of those awake. Like one in real time it arms its queue
// pairs before it sleeps, and sleeps until one of them notifies it.
func (w *World) turn(k int) {
	for _, n := range w.shards {
		if !w.awake(n) {
			continue
		}
		if k > 0 {
			k--
			continue
		}
		w.run(n)
		return
	}
}

func (w *World) run(n *node) {
	if !n.shard.Adopt() {
		n.asleep = true // a function further down the stack waits in it
		return
	}
	w.turning = n
	if n.shard.Turn() == 0 {
		n.asleep = true
		for _, q := range n.qps {
			if !q.QP.Arm() {
				n.asleep = false
			}
		}
	}
	w.turning = nil
	n.shard.Release()
}

// advance moves time to the next event. False: there is none to come.
func (w *World) advance() bool {
	now := w.now()
	next, ok := w.fab.NextEvent()
	sooner := func(t clock.Time) {
		if !ok || t < next {
			next, ok = t, true
		}
	}
	for _, n := range w.shards {
		if n.until > now {
			sooner(n.until)
			continue
		}
		// A timer that is due and was not fired is a closed shard's.
		if t, has := n.shard.NextTimer(); has && t > now {
			sooner(t)
		}
	}
	for _, p := range w.progs {
		if t, has := p.deadline(); has {
			sooner(t)
		}
	}
	for _, a := range w.alarms {
		sooner(a.at)
	}
	if !ok {
		return false
	}
	w.fab.AdvanceTo(next)
	for _, n := range w.shards {
		if t, has := n.shard.NextTimer(); has && t <= next || n.until == next {
			n.asleep = false
		}
	}
	w.ring()
	return true
}

// Wait implements shard.Waiter: the program that calls lets the others run. A
// caller that is no program runs the world itself.
func (w *World) Wait(ctx context.Context, _ *shard.Shard, sig *shard.Signal) error {
	if p := w.cur; p != nil {
		return p.wait(ctx, sig)
	}
	w.stir()
	err := w.loop(func() bool { return sig.IsSet() || ctx.Err() != nil })
	if err != nil || sig.IsSet() {
		return err
	}
	return context.Cause(ctx)
}

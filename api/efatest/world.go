package efatest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
)

// Config describes a world.
type Config struct {
	Seed uint64
	// Fabric is how the network behaves. Seed and Virtual are set by New.
	Fabric sim.Config
	// MaxTime is how much simulated time may pass before Run gives up; 0: 10
	// minutes.
	MaxTime time.Duration
}

// World is a simulation: a fabric, and programs on it.
type World struct {
	cfg    Config
	fab    *sim.Fabric
	rng    *rand.Rand
	shards []*shard.Shard
	idle   []bool // shards that had nothing to do when they last ran
	progs  []*program
	cur    *program
}

// ErrStuck is what Run ends with when every program waits for something that
// will never happen.
var ErrStuck = errors.New("efatest: all programs wait and nothing is under way")

// New makes a world without programs.
func New(cfg Config) (*World, error) {
	cfg.Fabric.Seed, cfg.Fabric.Virtual = cfg.Seed, true
	if cfg.MaxTime == 0 {
		cfg.MaxTime = 10 * time.Minute
	}
	f, err := sim.New(cfg.Fabric)
	if err != nil {
		return nil, err
	}
	return &World{cfg: cfg, fab: f, rng: rand.New(rand.NewPCG(cfg.Seed, 0xefa))}, nil
}

// Fabric gives the network, to add faults.
func (w *World) Fabric() *sim.Fabric { return w.fab }

// Rand is the world's randomness, for programs that want to be repeatable.
func (w *World) Rand() *rand.Rand { return w.rng }

// Device opens a port of the fabric.
func (w *World) Device(cfg sim.DeviceConfig) (efa.Device, error) {
	d, err := w.fab.OpenDevice(cfg)
	if err != nil {
		return nil, err
	}
	return &simDevice{Device: d, w: w}, nil
}

// simDevice is a port that brings its environment along (efa.Environment).
type simDevice struct {
	device.Device
	w *World
}

func (d *simDevice) Clock() clock.Clock    { return d.w.fab.Clock() }
func (d *simDevice) Waiter() shard.Waiter  { return d.w }
func (d *simDevice) Seed() uint64          { return d.w.rng.Uint64() | 1 }
func (d *simDevice) Random() uint32        { return d.w.rng.Uint32() }
func (d *simDevice) Attach(s *shard.Shard) { d.w.attach(s) }
func (d *simDevice) Unwrap() device.Device { return d.Device }
func (w *World) attach(s *shard.Shard)     { w.shards, w.idle = append(w.shards, s), append(w.idle, false) }
func (w *World) now() clock.Time           { return w.fab.Clock().Now() }

// Elapsed is the simulated time since the world began.
func (w *World) Elapsed() time.Duration { return time.Duration(w.now()) }

// Run lets the programs run until all have returned, and joins their errors. It
// gives up with ErrStuck, or when MaxTime has passed.
func (w *World) Run() error {
	err := w.loop(func() bool {
		for _, p := range w.progs {
			if !p.done {
				return false
			}
		}
		return true
	})
	errs := []error{err}
	for _, p := range w.progs {
		if p.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, p.err))
		}
	}
	if err != nil {
		w.abandon()
	}
	return errors.Join(errs...)
}

// loop makes one thing happen after the other until the condition holds.
func (w *World) loop(until func() bool) error {
	for !until() {
		if w.step() {
			continue
		}
		if !w.advance() {
			return fmt.Errorf("%w after %v:%s", ErrStuck, w.Elapsed(), w.waiting())
		}
		if w.Elapsed() > w.cfg.MaxTime {
			return fmt.Errorf("efatest: %v of simulated time have passed:%s", w.Elapsed(), w.waiting())
		}
	}
	return nil
}

// step picks one of the things that can happen now. False: none can.
func (w *World) step() bool {
	n := 0
	for _, p := range w.progs {
		if p.ready() {
			n++
		}
	}
	ready := n
	for i := range w.shards {
		if !w.idle[i] {
			n++
		}
	}
	at, pending := w.fab.NextEvent()
	pending = pending && at <= w.now()
	if pending {
		n++
	}
	if n == 0 {
		return false
	}
	k := w.rng.IntN(n)
	switch {
	case k < ready:
		w.resume(k)
	case pending && k == n-1:
		w.fab.Step()
		w.stir()
	default:
		w.turn(k - ready)
	}
	return true
}

// stir makes every shard look again.
func (w *World) stir() { clear(w.idle) }

// turn runs the k-th shard of those that are not idle.
func (w *World) turn(k int) {
	for i, s := range w.shards {
		if w.idle[i] {
			continue
		}
		if k == 0 {
			if s.Adopt() {
				w.idle[i] = s.Turn() == 0
				s.Release()
			} else {
				w.idle[i] = true
			}
			return
		}
		k--
	}
}

// advance moves time to the next event. False: there is none.
func (w *World) advance() bool {
	next, ok := w.fab.NextEvent()
	for _, s := range w.shards {
		if t, has := s.NextTimer(); has && (!ok || t < next) {
			next, ok = t, true
		}
	}
	for _, p := range w.progs {
		if t, has := p.deadline(); has && (!ok || t < next) {
			next, ok = t, true
		}
	}
	if !ok {
		return false
	}
	w.fab.AdvanceTo(next)
	w.stir()
	return true
}

// waiting lists the programs that have not ended.
func (w *World) waiting() string {
	var b strings.Builder
	for _, p := range w.progs {
		if !p.done {
			fmt.Fprintf(&b, " %s", p.name)
		}
	}
	return b.String()
}

// Wait implements shard.Waiter: the program that calls lets the others run. A
// caller that is no program runs the world itself.
func (w *World) Wait(ctx context.Context, _ *shard.Shard, sig *shard.Signal) error {
	p := w.cur
	if p == nil {
		w.stir()
		err := w.loop(func() bool { return sig.IsSet() || ctx.Err() != nil })
		if err != nil || sig.IsSet() {
			return err
		}
		return context.Cause(ctx)
	}
	return p.wait(ctx, sig)
}

package shard

import (
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/runtime/sys"
)

// Shard runs a set of actors and pollers in one goroutine at a time, its owner.
type Shard struct {
	// Read by every producer; the owner writes them rarely.
	owner   owner
	parking parking
	closing atomic.Bool // Close was called
	claims  atomic.Bool // it is lent, not closing, and has no Config.Waiter: see Claim
	coming  atomic.Bool // a waiter that runs already, or was woken for it, is about to look after the shard
	inbox   *inbox
	_       [64]byte

	// Written by goroutines that wait.
	waiters waiters
	_       [64]byte

	// Never change.
	name       string
	mode       Mode
	modeReason string
	external   bool          // Config.External
	lent       bool          // goroutines that wait run it
	grace      time.Duration // Config.Grace
	pinCPU     []int         // Config.PinCPU
	waiter     Waiter        // Config.Waiter, nil for the built-in way
	notifier   *notifier     // of a pinned shard that is not lent, nil on others
	_          [64]byte

	// Owned by the owner.
	delivery delivery
	sched    scheduler
	clock    shardClock
	pollers  pollers
	idling   idling
	drives   uint64 // times that a goroutine drove the manual shard
	posts    uint64 // times that one polled one poller of it
	woke     bool   // a parked waiter was woken
	rand     *rand.Rand
	spawner  spawner
	root     root
	wheel    wheel
	_        [64]byte

	// Used by the goroutine that sleeps, by those that wake it, and at the end.
	sleeper sleeper
	faults  faults
	life    lifetime
}

// New starts a shard.
func New(cfg Config) (*Shard, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Shard{
		inbox:    newInbox(inboxCells),
		external: cfg.External,
		grace:    cfg.Grace,
		pinCPU:   cfg.PinCPU,
		waiter:   cfg.Waiter,
		clock:    newShardClock(cfg.Clock),
		rand:     newRand(cfg.Seed),
	}
	if s.external {
		s.mode, s.modeReason = Manual, "external: its creator turns it"
	} else {
		cpus, procs := cores()
		s.mode, s.modeReason = cfg.Mode.resolve(cpus, procs)
		s.lent = s.mode == Manual
		if s.mode == Pinned && !cfg.alone && fewCores(cpus, procs) {
			s.lent, s.modeReason = true, s.modeReason+", lent to goroutines that wait since processors are few"
		}
	}
	s.claims.Store(s.lent && s.waiter == nil)
	s.delivery.inbox, s.delivery.faults = s.inbox, &s.faults
	s.delivery.stack.limit = maxDepth
	s.idling.spin = cfg.Spin
	s.wheel.next = never
	s.spawner.s = s
	s.sleeper.init(s)
	s.life.s, s.life.done = s, make(chan struct{})
	s.root.s, s.root.strategy = s, s.OneForOne(defaultRestarts, defaultWithin, actor.DefaultDecider)
	s.root.system, s.root.pid = acquireSystem(cfg.Name, &s.root)
	s.name = s.root.pid.GetId()
	s.faults.log, s.faults.name = cfg.Logger, s.name
	if err := s.life.start(); err != nil {
		releaseSystem(s.root.pid)
		return nil, err
	}
	return s, nil
}

func newRand(seed uint64) *rand.Rand {
	if seed == 0 {
		var b [8]byte
		_, _ = crand.Read(b[:]) // never fails
		seed = binary.LittleEndian.Uint64(b[:])
	}
	return rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
}

// Name returns the name with which the paths of the shard's actors begin.
func (s *Shard) Name() string { return s.name }

// Mode returns the mode in force, never Auto.
func (s *Shard) Mode() Mode { return s.mode }

// ModeReason returns why the shard has that mode.
func (s *Shard) ModeReason() string { return s.modeReason }

// Rand returns the shard's source of randomness. Shard only.
func (s *Shard) Rand() *rand.Rand { return s.rand }

// OnShard reports whether the calling goroutine owns the shard.
func (s *Shard) OnShard() bool { return s.owner.isCaller() }

// Adopt makes the calling goroutine the owner, which may call Turn and all that is
// marked "shard only". It reports false if there is an owner already; a pinned
// shard that is not lent always has its own.
func (s *Shard) Adopt() bool { return s.owner.acquire() }

// Release gives up what Adopt took. On a manual shard a parked waiter, the goroutine that sleeps for the shard,
// or the helper takes over.
func (s *Shard) Release() {
	z := &s.sleeper
	seat := z.seat.Load()
	settled := (seat == seatWaiter || s.waiters.parked.Load() == 0 && (seat == seatHelper || z.abed.Load())) && z.settle()
	s.owner.release()
	if settled {
		// The sleeper may have woken, found that the shard has an owner, and parked or left.
		if seat = z.seat.Load(); seat == seatWaiter || seat == seatHelper && s.waiters.parked.Load() == 0 {
			return
		}
	}
	if s.waiters.parked.Load()|s.parking.state.Load() != 0 || z.abed.Load() {
		s.handOver()
	}
}

// Close stops the root actors in the order in which they were spawned, each
// after the messages it has and before the next begins to stop; then it ends the
// shard. Waiters whose signal was not set by then get ErrClosed, messages still
// under way are canceled. Any goroutine may call Close, any number of times; it
// returns when all is done, or, called from inside a turn, at once.
func (s *Shard) Close() error {
	first := s.closing.CompareAndSwap(false, true)
	sys.Step()
	s.claims.Store(false)
	switch {
	case s.OnShard():
		if s.sched.inTurn() || s.parking.isClosed() {
			return nil
		}
		if s.external {
			s.life.shutdown()
		}
		return nil
	case s.external && first && s.owner.acquire():
		s.life.shutdown()
	case !s.external:
		s.sleeper.ring(seatWaiter)
		s.sleeper.wakeHelper()
	}
	sys.Await(false, s.life.over)
	<-s.life.done
	s.life.running.Wait()
	return nil
}

var (
	// ErrClosed is returned by calls that need the shard and find it closed.
	ErrClosed = errors.New("shard: closed")
	// ErrInTurn is returned by a call that would wait for the shard from inside
	// one of its own turns.
	ErrInTurn = errors.New("shard: waiting inside a turn")
)

// Stats counts what is rare. Snapshot it from any goroutine.
type Stats struct {
	Canceled uint64 // messages dropped because their actor was gone
	Failures uint64 // panics of actors and pollers
	Parks    uint64 // times the shard went to sleep
	Wakes    uint64 // times another goroutine had to ring to end that
}

// Stats returns the counters as they are now.
func (s *Shard) Stats() Stats {
	return Stats{
		Canceled: s.faults.canceled.Load(),
		Failures: s.faults.failures.Load(),
		Parks:    s.sleeper.parks.Load(),
		Wakes:    s.sleeper.wakes.Load(),
	}
}

// Delivered returns how many messages the shard has handed to its actors. Shard only.
func (s *Shard) Delivered() uint64 { return s.delivery.delivered }

// owner names the goroutine that runs the shard. It is also the lock: the goroutine
// that sets it from 0 may use everything that belongs to the owner. Any goroutine may
// read it; only the owner clears it.
type owner struct{ g atomic.Uintptr }

// isCaller reports whether the calling goroutine owns the shard.
func (o *owner) isCaller() bool { return o.g.Load() == getg() }

// isCallerFast is isCaller where that is cheap. Elsewhere it is false: every
// goroutine counts as a remote one.
func (o *owner) isCallerFast() bool { return fastG && o.g.Load() == getg() }

// free reports whether no goroutine owns the shard.
func (o *owner) free() bool { return o.g.Load() == 0 }

// acquire makes the calling goroutine the owner if there is none.
func (o *owner) acquire() bool {
	sys.Step()
	return o.g.Load() == 0 && o.g.CompareAndSwap(0, getg())
}

// set makes the calling goroutine the owner of a shard that no other goroutine can own.
func (o *owner) set() { o.g.Store(getg()) }

// release ends the ownership. Owner only.
func (o *owner) release() {
	sys.Step()
	o.g.Store(0)
	sys.Step()
}

// lifetime starts the goroutines of a shard and ends the shard.
type lifetime struct {
	s       *Shard
	done    chan struct{} // closed at the end of shutdown
	running sync.WaitGroup
	ending  bool // in shutdown; owner only
}

// start gets the descriptors and the goroutine that the mode needs. It returns when
// the goroutine owns the shard or, for a lent one, exists.
func (l *lifetime) start() error {
	if l.s.external {
		return nil
	}
	if err := l.open(); err != nil {
		return err
	}
	ready := make(chan error, 1)
	countShard()
	l.running.Go(func() {
		defer uncountShard()
		l.run(ready)
	})
	if err := <-ready; err != nil {
		l.free()
		return err
	}
	if n := l.s.notifier; n != nil {
		l.running.Go(n.run)
	}
	return nil
}

// run is the goroutine of the shard.
func (l *lifetime) run(ready chan<- error) {
	s := l.s
	if s.mode == Pinned {
		// Not unlocked: the thread ends with the goroutine, and so its affinity.
		runtime.LockOSThread()
		if err := pin(s.pinCPU); err != nil {
			ready <- err
			return
		}
	}
	if s.lent {
		ready <- nil
		h := helper{s: s}
		h.run()
		return
	}
	s.owner.set()
	ready <- nil
	l.loop()
}

// loop is the goroutine of a pinned shard that is lent to none.
func (l *lifetime) loop() {
	s := l.s
	for {
		n := s.idling.turn(s)
		switch {
		case s.closing.Load():
			l.shutdown()
			return
		case n > 0:
			s.idling.reset()
		case s.idling.longEnough(&s.clock):
			s.sleeper.park()
		default:
			s.idling.relaxPinned(&s.clock)
		}
	}
}

// open gets the descriptors that the mode needs.
func (l *lifetime) open() (err error) {
	s := l.s
	if err := s.sleeper.open(); err != nil {
		return err
	}
	if s.mode == Pinned && !s.lent {
		if s.notifier, err = newNotifier(); err != nil {
			s.sleeper.close()
			return err
		}
	}
	return nil
}

// over reports whether shutdown has ended.
func (l *lifetime) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// free gives the descriptors back.
func (l *lifetime) free() {
	if l.s.external {
		return
	}
	l.s.sleeper.close()
	if n := l.s.notifier; n != nil {
		n.stop()
	}
}

// Idle turns after which an actor that was asked to stop gets a Stop, and after which
// it is left behind.
const (
	stopAfter    = 64
	abandonAfter = 4 * stopAfter
)

// shutdown ends the shard. Precondition: the caller owns it, outside of a turn.
// It gives the ownership up.
func (l *lifetime) shutdown() {
	s := l.s
	l.ending = true
	for len(s.root.actors) > 0 {
		l.end(s.root.actors[0])
	}
	s.sched.over = true
	s.delivery.cancelAll()
	s.parking.close()
	s.owner.release()
	s.inbox.cancelAll(&s.faults)
	releaseSystem(s.root.pid)
	l.free()
	close(l.done)
}

// end stops one root actor. A suspended one sees no poison, so if nothing moves
// it gets a Stop, and if that does not help it is left behind.
func (l *lifetime) end(m *mailbox) {
	s := l.s
	s.inbox.push(m, &actor.PoisonPill{}, lanePID) // behind all that was posted
	for idle := 0; len(s.root.actors) > 0 && s.root.actors[0] == m; {
		if s.Turn() > 0 {
			idle = 0
			continue
		}
		switch idle++; idle {
		case stopAfter:
			s.root.send(m.pid, &actor.Stop{})
		case abandonAfter:
			s.faults.log.Error("actor did not stop", "actor", m.pid.GetId())
			s.root.actors = s.root.actors[1:]
		}
	}
}

package shard

import (
	crand "crypto/rand"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/runtime/clock"
)

// Shard runs a set of actors and pollers in one goroutine at a time, its owner.
type Shard struct {
	// Read by every producer; the owner writes them rarely.
	g       atomic.Uintptr // the owner's goroutine, 0 for none: also the lock
	parked  atomic.Uint32
	waiting atomic.Int32 // length of the list of waiters
	closing atomic.Bool
	inbox   *inbox
	_       [64]byte

	// Written by goroutines that wait.
	wanted atomic.Uint32 // one looks for the shard of whoever owns it
	handed atomic.Uint32 // one left it to the helper, for want of work
	_      [64]byte

	// Never change.
	name       string
	mode       Mode
	modeReason string
	external   bool
	spin       time.Duration
	grace      time.Duration
	clock      clock.Clock
	tank       int // fuel of one reading of the clock
	log        *slog.Logger
	waiter     Waiter
	pinCPU     []int
	actors     *actor.ActorSystem
	root       root
	notifier   *notifier // of a pinned shard
	done       chan struct{}
	running    sync.WaitGroup
	_          [64]byte

	// Owned by the owner.
	cur       *mailbox // the actor at work, nil for none
	curMsg    any
	ran       int // messages of this turn
	delivered uint64
	work      int // other work of this turn
	ring      ring
	sys       ring
	replay    ring
	now       clock.Time
	fuel      int
	phase     int
	polling   []*pollerEntry // the list as this turn found it
	at        int
	pollers   []*pollerEntry
	idle      int
	idleSince clock.Time
	drives    uint64
	unnamed   uint64
	shared    *actor.Props
	spawning  *mailbox // being spawned with shared Props, until its actor is made
	spawned   *mailbox // made, until its mailbox is asked for
	turning   bool
	fresh     bool // now was read in this turn
	shutting  bool // in shutdown
	over      bool // past the last turn
	woke      bool // a parked waiter was woken
	rand      *rand.Rand
	failures  map[*actor.PID][]clock.Time
	wheel     wheel
	_         [64]byte

	bell     eventFD
	handover chan struct{} // to the helper while it naps
	alarm    *time.Timer   // its
	sleeper  sleeper
	sweepMu  sync.Mutex
	stats    stats

	waitMu                  sync.Mutex
	firstWaiter, lastWaiter *Signal
}

// New starts a shard.
func New(cfg Config) (*Shard, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Shard{
		inbox:    newInbox(inboxCells),
		external: cfg.External,
		spin:     cfg.Spin,
		grace:    cfg.Grace,
		clock:    cfg.Clock,
		log:      cfg.Logger,
		waiter:   cfg.Waiter,
		pinCPU:   cfg.PinCPU,
		done:     make(chan struct{}),
		rand:     newRand(cfg.Seed),
		handover: make(chan struct{}, 1),
		alarm:    clock.NewTimer(time.Hour),
	}
	s.alarm.Stop()
	s.mode, s.modeReason = cfg.Mode.resolve(cores())
	if s.external {
		s.mode, s.modeReason = Manual, "external: its creator turns it"
	}
	if s.clock == clock.System {
		s.tank = fullFuel
	}
	s.wheel.next = never
	s.readClock()
	if err := s.open(); err != nil {
		return nil, err
	}
	s.root.s, s.root.strategy = s, OneForOne(s, defaultRestarts, defaultWithin, actor.DefaultDecider)
	s.actors, s.root.pid = acquireSystem(cfg.Name, &s.root)
	s.name = s.root.pid.GetId()
	if err := s.start(); err != nil {
		releaseSystem(s.root.pid)
		s.shut()
		return nil, err
	}
	return s, nil
}

// open gets the descriptors that the mode needs.
func (s *Shard) open() (err error) {
	if s.external {
		return nil
	}
	if err := s.bell.open(); err != nil {
		return err
	}
	if s.mode == Pinned {
		if s.notifier, err = newNotifier(); err != nil {
			s.bell.close()
			return err
		}
	}
	return nil
}

// shut gives them back.
func (s *Shard) shut() {
	if s.external {
		return
	}
	s.bell.close()
	if s.notifier != nil {
		s.notifier.stop()
	}
}

func newRand(seed uint64) *rand.Rand {
	if seed == 0 {
		var b [8]byte
		_, _ = crand.Read(b[:]) // never fails
		seed = binary.LittleEndian.Uint64(b[:])
	}
	return rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
}

// Name is where the paths of the shard's actors begin.
func (s *Shard) Name() string { return s.name }

// Mode is the mode in force, never Auto.
func (s *Shard) Mode() Mode { return s.mode }

// ModeReason says why that mode.
func (s *Shard) ModeReason() string { return s.modeReason }

// Rand is the shard's source of randomness. Shard only.
func (s *Shard) Rand() *rand.Rand { return s.rand }

// OnShard reports whether the calling goroutine owns the shard.
func (s *Shard) OnShard() bool { return s.g.Load() == getg() }

// local is OnShard where that is cheap; where it isn't, everybody counts as remote.
func (s *Shard) local() bool { return fastG && s.g.Load() == getg() }

// Adopt makes the calling goroutine the owner, who may call Turn and all that is
// marked shard only, unless there is one already. Pinned and cooperative shards
// always have theirs.
func (s *Shard) Adopt() bool { return s.g.Load() == 0 && s.g.CompareAndSwap(0, getg()) }

// Release gives up what Adopt took. On a manual shard a parked waiter, or the
// helper, takes over.
func (s *Shard) Release() {
	s.g.Store(0)
	s.left()
}

func (s *Shard) registry() *actor.ProcessRegistryValue { return s.actors.ProcessRegistry }

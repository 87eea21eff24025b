package shard

import (
	crand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Shard runs a set of actors and pollers in one goroutine at a time, its owner.
type Shard struct {
	// Read by every producer; the owner writes them rarely.
	owner   owner
	parking parking
	closing atomic.Bool // Close was called
	claims  atomic.Bool // it is lent, not closing, and has no Config.Waiter: see Claim
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
	s.mode, s.modeReason = cfg.Mode.resolve(cores())
	if s.external {
		s.mode, s.modeReason = Manual, "external: its creator turns it"
	}
	s.lent = s.mode == Manual && !s.external
	if s.mode == Pinned && !cfg.alone && fewCores() {
		s.lent, s.modeReason = true, s.modeReason+", lent to goroutines that wait since processors are few"
	}
	s.claims.Store(s.lent && s.waiter == nil)
	s.delivery.inbox, s.delivery.faults = s.inbox, &s.faults
	s.delivery.stack.limit = maxDepth
	s.idling.spin, s.idling.yield = cfg.Spin, cfg.Yield
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

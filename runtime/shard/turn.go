package shard

import (
	"math"
	"slices"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

// scheduler is the state of the present turn, which outlives a panic in it. Owner
// only.
type scheduler struct {
	phase int  // the one with which the turn goes on after a panic
	work  int  // of this turn, besides the messages that are being delivered
	looks int  // how often the turn may look for work
	over  bool // past the last turn
}

// Phases of a turn. A panic ends the phase's present step; the turn then goes on with the next.
const (
	phaseOver = iota // no turn is under way
	phaseInbox
	phaseBegin // of the walk over the pollers
	phasePoll
	phaseDeliver
	phaseFlush
	phaseTimers
)

// inTurn reports whether a turn is running.
func (c *scheduler) inTurn() bool { return c.phase != phaseOver }

// Turn runs the shard once: drain the inbox, poll, deliver messages, and if
// anything happened let the pollers flush; then timers. It returns how much was
// done, 0 if there was nothing to do. Owner only, and never from inside a turn.
func (s *Shard) Turn() int {
	n := s.turn(1)
	if s.external && s.closing.Load() && !s.life.ending {
		s.life.shutdown()
	}
	return n
}

// turn is a turn that looks up to that many times for work.
func (s *Shard) turn(looks int) int {
	if s.sched.over {
		return 0
	}
	s.sched.looks = looks
	n := s.step(nil, phaseInbox)
	if n < 0 {
		n = s.resumeTurn(nil)
	}
	return n
}

// step begins a turn if none is under way: it polls first unless that is nil. Then it runs the
// phases from phase on, where first is not polled again, and ends the turn. It returns the
// turn's work, or -1 when a panic cut the turn short, for resumeTurn. The actor at work has failed
// then: protoactor suspends it and asks its supervisor.
//
// A turn that finds nothing to do looks at the pollers again if the scheduler says so: a shard
// that spins reacts sooner, since a look is less than half of what one turn after another takes.
func (s *Shard) step(first *Polled, phase int) (n int) {
	n = -1
	defer func() { // once for all messages and polls
		if s.sched.phase != phaseOver { // else recover need not be called
			s.rescue(recover())
		}
	}()
	if s.sched.phase == phaseOver {
		s.sched.phase = phase
		s.clock.fresh = false
		if s.clock.left <= 0 {
			s.clock.read()
		}
		if first != nil && !first.off {
			s.delivery.stack.on[0] = first.m
			s.sched.work += first.p.Poll(s)
		}
	}
	e := s.pollers.at // of a walk that a panic has cut short
	switch phase {
	case phaseInbox:
		if !s.inbox.idle() {
			s.sched.phase = phaseBegin
			s.sched.work += s.delivery.drain(maxInbox)
		}
		fallthrough
	case phaseBegin:
		e, s.sched.phase = s.pollers.walk(), phasePoll
		fallthrough
	case phasePoll:
		for {
			for ; e != nil; e = e.after {
				if e != first && !e.off {
					s.pollers.at, s.delivery.stack.on[0] = e.after, e.m
					s.sched.work += e.p.Poll(s)
				}
			}
			if s.sched.work != 0 || s.sched.looks <= 1 || !s.quiet() {
				break
			}
			s.sched.looks--
			s.clock.left -= turnCost
			pause()
			e = s.pollers.first
		}
		fallthrough
	case phaseDeliver:
		if !fastG || !s.delivery.empty() { // without a cheap getg messages are in the inbox
			s.sched.phase = phaseDeliver
			s.sched.work += s.delivery.run()
		}
		e, s.sched.phase = s.pollers.walk(), phaseFlush
		fallthrough
	case phaseFlush:
		if s.sched.work != 0 {
			for ; e != nil; e = e.after {
				if *e.due && !e.off {
					s.pollers.at, s.delivery.stack.on[0] = e.after, e.m
					e.p.Flush(s)
				}
			}
		}
	}
	if s.clock.now >= s.wheel.next {
		s.sched.phase = phaseTimers
		s.sched.work += s.wheel.fire(s.clock.now, &s.delivery)
	}
	n = s.sched.work
	s.clock.left -= turnCost + n
	s.sched.phase, s.sched.work, s.delivery.stack.on[0] = phaseOver, 0, nil
	return n
}

// quiet reports whether there is nothing to do but what the pollers may find that are walked.
func (s *Shard) quiet() bool {
	return !s.pollers.changed && s.delivery.empty() && s.inbox.idle()
}

// resumeTurn is the rest of a turn that a panic has cut short.
func (s *Shard) resumeTurn(first *Polled) (n int) {
	for n = -1; n < 0; n = s.step(first, s.sched.phase) {
	}
	return n
}

// Poller is a source of work that the shard looks at in every turn: a device
// queue, a connection. Its methods are called on the shard.
type Poller interface {
	// Poll does up to one batch of work and returns how much it did.
	Poll(s *Shard) int
	// Flush is called once at the end of a turn in which anything happened, here
	// or elsewhere on the shard: time for doorbells and for publishing completions. A
	// poller that is a Flusher says itself when.
	Flush(s *Shard)
	// Arm is called before the shard sleeps: from now on a descriptor of FDs, or
	// a call of Wake, announces new work. It returns false if there is work already.
	Arm() bool
	// FDs returns the descriptors to wait on for reading; asked at every sleep. One that it closes does not come again
	// under the same number before the poller is removed.
	FDs() []int
}

// Flusher is a Poller of which few turns need the Flush.
type Flusher interface {
	// FlushDue is asked once: Flush is called only if it is true where the answer points to.
	FlushDue() *bool
}

// always is for pollers that are no Flusher.
var always = true

// pollers holds the pollers of a shard. Owner only.
type pollers struct {
	list    []*Polled
	first   *Polled // those of the list to be called, as the present phase of the turn found it
	at      *Polled // the one after that which is being called, where a walk goes on after a panic
	changed bool    // first is not what walk would make of the list
	gen     uint64  // counts changes of the list
}

// Polled is a poller's place on its shard.
type Polled struct {
	after *Polled  // the next to be called; only pollers.gather changes it
	m     *mailbox // the actor whose failure a panic is, nil for none
	p     Poller
	due   *bool // says whether Flush is to be called
	off   bool  // p is not to be called: m is suspended, or p was removed
}

// AddPoller makes p part of every turn, after those added before. A panic in p
// is a failure of the actor as: while as awaits its supervisor p is not called,
// and when it stops p is removed. A restarted actor finds its pollers still
// there, so it removes them on *actor.Restarting or takes them over.
//
// Called elsewhere than on the shard it waits for the shard.
func (s *Shard) AddPoller(as Ref, p Poller) *Polled {
	e := &Polled{m: as.m, p: p, due: &always}
	if f, ok := p.(Flusher); ok {
		e.due = f.FlushDue()
	}
	if s.OnShard() {
		s.pollers.add(e)
	} else {
		_ = s.call(func() { s.pollers.add(e) })
	}
	return e
}

// RemovePoller ends what AddPoller began.
func (s *Shard) RemovePoller(p Poller) {
	if !s.OnShard() {
		_ = s.call(func() { s.RemovePoller(p) })
		return
	}
	s.pollers.remove(func(e *Polled) bool { return e.p == p })
}

// add replaces the list, since a walk over it may be under way.
func (p *pollers) add(e *Polled) {
	p.list = append(p.list[:len(p.list):len(p.list)], e)
	p.refresh()
}

// remove replaces the list, since a walk over it may be under way. What is removed is not
// called again.
func (p *pollers) remove(which func(*Polled) bool) {
	var left []*Polled
	for _, e := range p.list {
		if which(e) {
			e.off = true
		} else {
			left = append(left, e)
		}
	}
	p.list = left
	p.refresh()
}

// refresh notes which pollers are to be called. It follows each change of the list and of
// mailbox.suspended, both of which are rare.
func (p *pollers) refresh() {
	for _, e := range p.list {
		e.off = e.m != nil && e.m.suspended
	}
	p.changed = true
	p.gen++
}

// walk returns the first to be called in a walk.
func (p *pollers) walk() *Polled {
	if p.changed {
		p.gather()
	}
	return p.first
}

// gather links those that are to be called. No walk is under way.
func (p *pollers) gather() {
	p.first, p.changed = nil, false
	for _, e := range slices.Backward(p.list) {
		if !e.off {
			e.after, p.first = p.first, e
		}
	}
}

// rescue, deferred, makes a panic outside of a turn the failure of the poller's actor.
func (p *pollers) rescue(s *Shard) {
	s.rescue(recover())
}

// arm readies every poller for sleep. It reports false if one has work, or panicked.
func (p *pollers) arm(s *Shard) (ok bool) {
	defer p.rescue(s)
	for _, e := range p.list {
		if e.off {
			continue
		}
		s.delivery.stack.set(e.m)
		if !e.p.Arm() {
			return false
		}
	}
	return true
}

// descriptors appends what to wait on to fds. It reports false if a poller panicked.
func (p *pollers) descriptors(s *Shard, fds []int) (_ []int, ok bool) {
	defer p.rescue(s)
	for _, e := range p.list {
		if e.off {
			continue
		}
		s.delivery.stack.set(e.m)
		fds = append(fds, e.p.FDs()...)
	}
	return fds, true
}

// The system's clock costs as much as five hops, so it is not read in each busy turn.
// A reading sets the clock budget; each turn and each message spends a part of it, and
// the first turn that finds it spent reads the clock again.
const (
	systemBudget = 256 // of one reading of the system's clock
	turnCost     = 8
	adoptCost    = 32 // of a new owner: time has passed since the last owner's reading
)

// shardClock is the shard's time: one reading of a clock that serves several turns.
// Owner only.
type shardClock struct {
	now    clock.Time
	left   int  // clock budget; at 0 and below the next turn reads the clock
	fresh  bool // now was read in this turn
	budget int  // of one reading; 0 for a clock that every turn reads
	source clock.Clock
}

func newShardClock(source clock.Clock) shardClock {
	c := shardClock{source: source}
	if source == clock.System {
		c.budget = systemBudget
	}
	c.read()
	return c
}

func (c *shardClock) isSystem() bool { return c.budget != 0 }

// read takes the time and renews the budget.
func (c *shardClock) read() {
	c.now = c.source.Now()
	c.left, c.fresh = c.budget, true
}

// spend takes cost from the budget.
func (c *shardClock) spend(cost int) { c.left -= cost }

// expire makes the next turn read the clock.
func (c *shardClock) expire() { c.left = 0 }

// deadline returns the time in d from a reading made now; an old reading would make
// it early.
func (c *shardClock) deadline(d time.Duration) clock.Time {
	c.read()
	if int64(d) >= math.MaxInt64-int64(max(c.now, 0)) {
		return clock.Time(math.MaxInt64)
	}
	return c.now.Add(max(d, 0))
}

// Now returns the shard's time, which is read every few turns. Shard only.
func (s *Shard) Now() clock.Time { return s.clock.now }

// TurnTime is Now, but read in this turn: for records of when something happened.
// Shard only.
func (s *Shard) TurnTime() clock.Time {
	if !s.clock.fresh {
		s.clock.read()
	}
	return s.clock.now
}

// Claim adopts a lent shard: a manual one, or a pinned one where processors are few. It
// reports false if the shard has an owner, is closing, or is not lent. Run and Release come
// then, or RunAndWait. What follows Release is left to the helper if no goroutine waits.
func (s *Shard) Claim() bool {
	return s.claims.Load() && s.owner.g.Load() == 0 && s.owner.g.CompareAndSwap(0, getg())
}

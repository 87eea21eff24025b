package shard

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/sys"
)

// maxInterval bounds the time between two looks of the helper at a shard that others
// drive, and so the time for which work may be left undone. Each look takes a processor
// from somebody for some 30 us, which is much for two processes that exchange messages
// as fast as they can; so a shard that was driven manyDrives times since the last look
// is left to its drivers for up to longInterval. When they stop, work is left undone
// for that long once.
const (
	maxInterval  = time.Millisecond
	longInterval = 8 * time.Millisecond
	manyDrives   = 512
)

// turnsBeside is how many turns the helper makes at a look beside goroutines that only post.
const turnsBeside = 32

// helper is the goroutine that looks after a lent shard when no other does. Its fields are
// its own.
type helper struct {
	s        *Shard
	seen     uint64        // Shard.drives at the last look
	posted   uint64        // Shard.posts then
	interval time.Duration // until the next look
	most     time.Duration // bound of interval
}

func (h *helper) run() {
	s := h.s
	h.interval, h.most = s.grace, max(maxInterval, s.grace)
	for {
		if s.owner.acquire() {
			if s.closing.Load() {
				s.life.shutdown()
				return
			}
			h.look()
			if s.closing.Load() {
				continue
			}
		}
		s.sleeper.standBy(h.interval)
		h.interval = min(2*h.interval, h.most)
	}
}

// look serves the shard if it was left to the helper or not driven since the last look, rests if a waiter
// sleeps for the shard, and leaves it to its drivers otherwise. Goroutines that only post run one poller, so
// the helper makes a turn beside them. The caller owns the shard; look gives it up.
func (h *helper) look() {
	s := h.s
	switch {
	case s.sleeper.seat.Load() == seatWaiter && s.drives-h.seen < hurryCalls:
		h.seen, h.posted, h.interval = s.drives, s.posts, s.grace
		if s.sleeper.rest() {
			h.serve()
		}
	case s.drives == h.seen && s.posts == h.posted:
		h.interval = s.grace
		h.serve()
	case s.drives == h.seen:
		h.posted, h.most = s.posts, max(maxInterval, s.grace)
		h.interval = min(h.interval, h.most)
		s.clock.expire()
		s.woke = false
		worked := false
		for i := 0; i < turnsBeside && s.waiters.wanted.Load() == 0 && s.idling.turn(s) > 0; i++ {
			worked, h.interval = true, s.grace
		}
		s.makeWay()
		if worked {
			runtime.Gosched() // those that the turns have woken have this processor
		}
	default:
		if h.most = max(maxInterval, s.grace); s.drives-h.seen >= manyDrives {
			h.most = max(longInterval, s.grace)
		}
		h.seen, h.posted, h.interval = s.drives, s.posts, min(h.interval, h.most)
		s.clock.expire() // so the time that drivers see is no older than an interval
		s.makeWay()
	}
}

// serve runs the shard until another goroutine may want it.
func (h *helper) serve() {
	s := h.s
	s.idling.reset()
	s.clock.expire()
	s.woke = false
	h.seen = s.drives
	for {
		n := s.idling.turn(s)
		switch {
		case s.woke || s.waiters.wanted.Load() != 0:
			// Let them run on this processor, now.
			s.makeWay()
			runtime.Gosched()
			return
		case s.drives != h.seen || s.closing.Load(): // driven while the helper rested
			h.seen = s.drives
			s.makeWay()
			return
		case n > 0:
			s.idling.busy(&s.clock)
		case !s.idling.longEnough(&s.clock):
			h.relax()
		case s.posts-h.posted >= hurryCalls: // it would be called soon
			h.posted = s.posts
			s.makeWay()
			return
		case !s.sleeper.rest():
			return
		default:
			h.posted = s.posts // those that came meanwhile have looked after themselves
		}
	}
}

func (h *helper) relax() {
	if h.s.mode == Pinned {
		h.s.idling.relaxPinned(&h.s.clock)
	} else if h.s.idling.relax(&h.s.clock) {
		runtime.Gosched()
	}
}

const (
	// idleTurns is the number of turns without work after which the shard counts as
	// idle. Most waits are shorter.
	idleTurns = 8
	// crowdedTurns is idleTurns for a shard that yields from the start.
	crowdedTurns = 2
	// otherClockSpins is the number of turns without work before a sleep on a shard
	// whose clock is not the system's and so cannot measure Config.Spin.
	otherClockSpins = 1000
)

// spinLooks is how often a turn of a shard that spins looks for work. The numbers of turns here
// are multiples of it, since each look counts as a turn.
const spinLooks = 4

// Turns without work after which other goroutines may have the processor. Go's runtime
// wakes a thread to look for more of them each time, perhaps on the CPU of the other
// side, so shards that have a processor each yield seldom. Measured: a system call to
// yield makes a ping-pong half as slow again.
const (
	yieldSoon = 16
	yieldLate = 256
)

// A wait that takes more than lonelyTurns turns goes on with yields: they cost a thread that spins nothing then,
// and where another thread waits for the CPU, perhaps the one that is to answer, that has it. A yield
// that took longer than takenYield gave the CPU to another thread (an empty one takes 0.27 us, one there and
// back 1.6 us): the next waits yield from the start, until lonelyYields in a row came back at once.
//
// A yield that took longer than longYield gave the CPU to a program that computes: sleeping costs less then, since the
// kernel prefers who wakes. So the next waits come without yields, minOff of them, or twice as many as the last
// time if few yields went well since.
const (
	lonelyTurns  = 64
	lonelyYields = 64
	takenYield   = 800 * time.Nanosecond
	longYield    = 500 * time.Microsecond
	minOff       = 64
	maxOff       = 512
)

// Polling in vain takes about as long as vainCost sleeps that it saves. It stops when it has lost as much as by
// tries in a row, and is tried again once in maxAsleep waits.
const (
	tries     = 3
	vainCost  = 5
	tooVain   = tries * vainCost
	mostVain  = (tries + 1) * vainCost
	maxAsleep = 64
)

// The host is asked every askPeriod whether threads wait for a CPU, which takes 3 us. Yields pay if it said so more than
// mostAsked/2 times more often than not: Go's runtime has a thread of its own awake every 20 us.
const (
	askPeriod = 400 * time.Microsecond
	mostAsked = 12
)

// longGap is from where on a gap makes the next sleep one in Go's poller. A system call wakes sooner, but Go's runtime
// looks every 20 us for a while whether it is to take the processor away from one that lasts.
const longGap = 2 * time.Millisecond

// idling counts the turns without work in a row and decides when the shard sleeps.
// Owner only.
type idling struct {
	turns int
	since clock.Time
	given time.Duration // of the time since then, what yields gave to other threads
	spin  time.Duration // Config.Spin

	asked clock.Time // when the host was asked whether threads wait for a CPU
	queue int        // how often it said so, less how often it did not

	yields  bool // the next look follows a yield
	crowded int  // yields that are to come back at once before a wait begins without them
	off     int  // waits that are to come without yields
	nextOff int  // half of off, if a yield takes long again

	last   time.Duration // the last gap until there was something to do
	slept  time.Duration // since then, in sleeps that ended for nothing or for what is yet to be done
	lost   int           // what polling has lost, by the gaps until there was something to do
	asleep int           // waits in a row that slept without polling
}

// reset begins anew.
func (i *idling) reset() { i.turns, i.given, i.slept, i.yields = 0, 0, 0, false }

// busy is reset, since there was work: it came while the shard polled.
func (i *idling) busy(c *shardClock) {
	if i.turns > idleTurns || i.given > 0 {
		i.gap(c.now.Sub(i.since))
		i.last += i.slept
	}
	i.reset()
}

// woke is reset after a sleep. If it ended for nothing, a timer of a device's say, the gap goes on.
func (i *idling) woke(c *shardClock) {
	c.read()
	d := c.now.Sub(i.since)
	i.gap(d)
	i.asleep++
	d += i.slept
	i.reset()
	i.slept, i.last = d, d
}

// gap learns from a wait whether polling pays.
func (i *idling) gap(d time.Duration) {
	i.last = d
	if d > i.spin {
		i.lost = min(i.lost+vainCost, mostVain)
	} else {
		i.lost = max(i.lost-1, 0)
	}
}

// turn runs a turn of a shard that may be idle. The looks of one without work, but for the last,
// are counted as turns without work.
func (i *idling) turn(s *Shard) int {
	if i.yields || i.crowded > 0 {
		return s.turn(1)
	}
	n := s.turn(spinLooks)
	if n == 0 {
		i.turns += spinLooks - 1
	}
	return n
}

// longEnough counts a turn without work and reports whether the shard has spun for
// long enough to sleep.
func (i *idling) longEnough(c *shardClock) bool {
	n := idleTurns
	if i.crowded > 0 {
		n = crowdedTurns
	}
	if i.turns++; i.turns <= n {
		if i.turns == n {
			c.read() // the last reading may be from before this thread lost its CPU
			i.since = c.now
		}
		return false
	}
	if !c.isSystem() {
		return i.turns > otherClockSpins
	}
	if c.now.Sub(i.since)-i.given >= i.spin {
		i.asleep = 0
		return true
	}
	if i.lost >= tooVain && i.asleep < maxAsleep {
		return true
	}
	if i.yields = (i.crowded > 0 || i.turns > lonelyTurns) && i.yieldsPay(c.now); !i.yields {
		i.crowded = 0
	}
	if i.yields && i.off > 0 {
		i.off--
		return true
	}
	return false
}

// crowdedHost is replaced by tests.
var crowdedHost = sys.Crowded

// yieldsPay reports whether threads wait for a CPU while this one polls. If there is a CPU for each, two threads that yield
// to each other stay together on one, since the kernel moves no thread that has just run. Those that poll without yields
// are soon apart.
func (i *idling) yieldsPay(now clock.Time) bool {
	if now.Sub(i.asked) >= askPeriod {
		i.asked = now
		switch crowded, known := crowdedHost(); {
		case !known:
			i.queue = mostAsked
		case crowded:
			i.queue = min(i.queue+1, mostAsked)
		default:
			i.queue = max(i.queue-1, 0)
		}
	}
	return i.queue > mostAsked/2
}

// relax passes the time between two turns without work. It reports whether other goroutines are to have the processor then.
func (i *idling) relax(c *shardClock) bool {
	i.wait(c)
	return i.turns%yieldSoon == 0 && (i.turns%yieldLate == 0 || oversubscribed())
}

// relaxPinned is relax on a pinned thread, which does not use the Go scheduler.
func (i *idling) relaxPinned(c *shardClock) {
	i.wait(c)
	if i.turns%64 == 0 {
		osYield()
	}
}

// wait waits a moment, or as long as others want the CPU.
func (i *idling) wait(c *shardClock) {
	if !i.yields {
		pause()
		return
	}
	c.read()
	before := c.now
	osYield()
	c.read()
	i.yielded(c.now.Sub(before))
}

// yielded notes for how long a yield took the CPU away.
func (i *idling) yielded(d time.Duration) {
	switch {
	case d > longYield:
		i.off = max(minOff, 2*i.nextOff)
		i.nextOff, i.given = min(i.off, maxOff/2), i.given+d
	case d > takenYield:
		i.crowded, i.nextOff, i.given = lonelyYields, max(i.nextOff-1, 0), i.given+d
	case i.crowded > 0:
		i.crowded--
	}
}

var (
	shards atomic.Int32 // shards of this process that have a goroutine
	procs  atomic.Int32 // GOMAXPROCS, as the newest of them found it
)

// oversubscribed reports whether all processors may be busy with shards.
func oversubscribed() bool { return shards.Load() >= procs.Load() }

// countShard counts a shard with a goroutine of its own.
func countShard() {
	procs.Store(int32(runtime.GOMAXPROCS(0)))
	shards.Add(1)
}

func uncountShard() { shards.Add(-1) }

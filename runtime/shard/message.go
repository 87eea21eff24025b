package shard

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/runtime/sys"
)

// Msg is a message that the actors of a shard tell each other: a pointer to a struct that
// embeds Message. The set of messages is sealed by that.
type Msg interface{ shardMsg() }

// Message makes a struct a Msg; embed it by value. A message is usually a field
// of its sender, so that telling it allocates nothing; it may be under way once at a
// time.
type Message struct{}

func (*Message) shardMsg() {}

// Canceled may be implemented by a message that must not be lost silently. Canceled is
// called in place of Receive when the actor stopped, or the shard closed, with
// the message still under way: on the shard, or after Close on the goroutine
// that posted. A message without it is counted in Stats.Canceled and dropped.
type Canceled interface{ Canceled() }

// Ref names an actor of a shard for the Ref lane. It is one word, comparable,
// and stays valid after the actor stopped; the zero Ref names no actor.
type Ref struct{ m *mailbox }

// PID returns the actor's protoactor name, for the PID lane; nil for the zero Ref.
func (r Ref) PID() *actor.PID {
	if r.m == nil {
		return nil
	}
	return r.m.pid
}

// IsZero reports whether r names no actor.
func (r Ref) IsZero() bool { return r.m == nil }

// String returns the actor's path, which begins with the name of its shard, or
// "nobody".
func (r Ref) String() string {
	if r.m == nil {
		return "nobody"
	}
	return r.m.pid.GetId()
}

// Tell sends m to an actor by the Ref lane. On the shard of that actor it is a
// push on the FIFO ring; anywhere else it goes through that shard's inbox, as
// with Post. A message to the zero Ref is canceled.
func (s *Shard) Tell(to Ref, m Msg) {
	if to.m == nil {
		s.faults.cancel(m)
		return
	}
	if t := to.m.s; t.owner.isCallerFast() {
		t.delivery.ring.push(to.m, m, laneRef)
	} else {
		t.remote(to.m, m, laneRef)
	}
}

// Post sends m to an actor from any goroutine and wakes its shard if it sleeps.
// It never blocks. What one goroutine tells and posts arrives in that order.
func (s *Shard) Post(to Ref, m Msg) { s.Tell(to, m) }

// remote files a message from a goroutine that does not own the shard.
func (s *Shard) remote(m *mailbox, msg any, l lane) {
	s.inbox.push(m, msg, l)
	sys.Step()
	s.Wake()
}

// Call has the actor handle m at once if Enter allows it, and tells it m otherwise.
// Shard only.
func (s *Shard) Call(to Ref, m Msg) {
	if to.IsZero() || !s.Enter(to) {
		s.Tell(to, m)
		return
	}
	to.m.receive(m)
}

// Enter makes the actor the one at work, so that the caller may call one of its
// handlers. It reports false, and changes nothing, if the handler must wait: a message
// is under way to the actor, a handler of the actor is on the stack already, the actor
// has failed or stopped, handlers are nested too deep, or QueueAll was called. Exit, or
// Leave, ends what Enter began. Precondition: to is not the zero Ref. Shard only.
func (s *Shard) Enter(to Ref) bool {
	m, c := to.m, &s.delivery.stack
	// Without a cheap getg the shard's own messages are in its inbox.
	if c.depth >= c.limit || c.on[0] == m || m.bars != 0 || !fastG && !s.inbox.idle() {
		return false
	}
	c.depth++
	c.on[c.depth%maxStack], m.bars = m, barEntered
	return true
}

// Exit ends what Enter began, if the handler has returned. Where it may panic and the
// caller has to go on, Leave is deferred instead.
func (s *Shard) Exit() { s.delivery.stack.pop() }

// Leave ends what Enter began. Deferred, it also makes a panic the failure of the
// innermost actor at work, after which the caller goes on: as with a message, the
// failure of one actor is not that of another.
func (s *Shard) Leave(to Ref) {
	if r := recover(); r != nil {
		s.Rescue(to, r)
	} else {
		s.Exit()
	}
}

// Rescue is Leave after a panic for that reason, for callers that know when there was none:
// what they defer is cheaper, as it calls recover only if they did not come to Exit. A nil
// reason means that the goroutine ends.
func (s *Shard) Rescue(to Ref, reason any) {
	c := &s.delivery.stack
	depth := c.depthOf(to.m)
	if reason != nil {
		s.failed(reason, depth)
	}
	c.unwind(depth)
}

// Unburdened reports whether no message is under way to the actor and no handler of it is on
// the stack, so that nothing is lost if it is stopped now. Shard only.
func (s *Shard) Unburdened(to Ref) bool {
	m := to.m
	return m != nil && m.bars&^barSlow == 0 && s.delivery.stack.on[0] != m && (fastG || s.inbox.idle())
}

// Pending is how many messages are in the rings for the actor. Shard only.
func (r Ref) Pending() int {
	if r.m == nil {
		return 0
	}
	return r.m.bars.pending()
}

// QueueAll makes every message go through the ring from now on: for tests, which compare
// that with what happens otherwise. Shard only.
func (s *Shard) QueueAll() { s.delivery.stack.limit = 0 }

// callStack lists the actors whose handlers are on the goroutine's stack. The innermost
// is the one at work: a panic is its failure. Owner only.
type callStack struct {
	on    [maxStack]*mailbox // on[0] is the one that the turn called, nil for none
	msg   any                // the message in hand, if protoactor is to know of it when the actor at work fails
	depth uint               // of the actor at work in on; those from 1 on have barEntered set
	limit uint               // maxDepth, or 0 after QueueAll
}

// maxDepth bounds how many handlers are called from within each other.
const maxDepth = 8

// maxStack is more than maxDepth, and a power of two, so that no index needs a check.
const maxStack = 2 * maxDepth

// set makes m the actor at work, with no message in hand; nil is for none. Nothing is on the
// stack.
func (c *callStack) set(m *mailbox) { c.on[0], c.msg = m, nil }

// top is the actor at work, nil for none.
func (c *callStack) top() *mailbox { return c.on[c.depth%maxStack] }

// unwind takes the actors above depth off the stack.
func (c *callStack) unwind(depth uint) {
	for c.depth > depth {
		c.pop()
	}
}

// pop takes the actor at work off the stack. Precondition: the depth is above 0.
func (c *callStack) pop() {
	c.top().bars &^= barEntered
	c.depth--
}

// depthOf returns the depth from which m was pushed. Precondition: m was pushed, or
// something above an m that was.
func (c *callStack) depthOf(m *mailbox) uint {
	at := max(c.depth, 1)
	for at > 1 && c.on[at%maxStack] != m {
		at--
	}
	return at - 1
}

// lane says how an entry is to be delivered.
type lane uint8

const (
	laneRef    lane = iota // Tell: straight to Receive
	lanePID                // mailbox: through protoactor's actor context
	laneSystem             // protoactor's system messages, ahead of the rest
	laneCall               // a func() to run on the shard, from another goroutine
)

// entry is one message under way to one actor.
type entry struct {
	m    *mailbox
	msg  any
	lane lane
}

// delivery holds the messages under way on the shard and hands them to their actors:
// system messages first, then what a resumed actor was owed, then all others in the
// order in which they were sent. Owner only.
type delivery struct {
	ran       int // messages that run has handled in this turn
	delivered uint64
	ring      ring // user messages, in the order in which they were sent
	sys       ring // protoactor's system messages
	replay    ring // messages held back for actors that go on now
	stack     callStack
	inbox     *inbox // the consumer's end of Shard.inbox
	faults    *faults
}

// maxMessages bounds the messages of one turn, and maxInbox the entries that it takes
// from the inbox, so that no part of the turn starves another.
const (
	maxInbox    = 64
	maxMessages = 256
)

// empty reports whether no message is on the rings.
func (d *delivery) empty() bool { return d.ring.len()|d.sys.len()|d.replay.len() == 0 }

// tell files a Ref lane message on the ring.
func (d *delivery) tell(to Ref, m Msg) {
	if to.m == nil {
		d.faults.cancel(m)
		return
	}
	d.ring.push(to.m, m, laneRef)
}

// drain moves up to limit entries from the inbox to the rings and returns how many.
func (d *delivery) drain(limit int) (n int) {
	for n < limit {
		e, ok := d.inbox.pop()
		if !ok {
			break
		}
		n++
		switch e.lane {
		case laneCall:
			d.stack.set(nil)
			e.msg.(func())()
		case laneSystem:
			d.sys.push(e.m, e.msg, e.lane)
		case laneRef, lanePID:
			d.ring.push(e.m, e.msg, e.lane)
		}
	}
	return n
}

// run handles messages until there are none or the turn has had its share, and returns how
// many the turn handled. After a panic it goes on counting.
func (d *delivery) run() int {
	for d.ran < maxMessages {
		var (
			m   *mailbox
			msg any
			l   lane
		)
		switch {
		case d.sys.len()|d.replay.len() != 0:
			d.ran++
			if d.sys.len() != 0 {
				m, msg, _ = d.sys.pop()
				d.stack.on[0] = m
				d.system(m, msg)
				continue
			}
			m, msg, l = d.replay.pop()
		case d.ring.len() != 0:
			d.ran++
			m, msg, l = d.ring.pop()
		default:
			// Without a cheap getg the shard's own messages are in its inbox.
			if !fastG && d.drain(maxInbox) > 0 {
				continue
			}
			return d.counted()
		}
		d.stack.on[0] = m
		if l == laneRef && m.bars.fast() {
			m.msg = msg
			m.actor.Receive((*refContext)(m))
			m.msg = nil
			continue
		}
		d.slow(m, msg, l)
	}
	return d.counted()
}

// counted ends the count of a turn's messages.
func (d *delivery) counted() (n int) {
	n, d.ran = d.ran, 0
	d.delivered += uint64(n)
	return n
}

// slow delivers a message that cannot go straight to Receive.
func (d *delivery) slow(m *mailbox, msg any, l lane) {
	switch {
	case m.stopped:
		d.faults.cancel(msg)
	case m.suspended:
		x := m.extras()
		x.held = append(x.held, entry{m, msg, l})
	default:
		d.stack.msg = msg
		m.invoker.InvokeUserMessage(msg)
		d.stack.msg = nil
		m.rearmed()
	}
}

// system delivers one of protoactor's own messages.
func (d *delivery) system(m *mailbox, msg any) {
	d.stack.msg = msg
	m.invokeSystem(msg)
	d.stack.msg = nil
	m.refresh()
	if m.stopping && !m.stopped {
		m.checkStopped()
	}
}

// cancelAll cancels what is left on the rings, when all actors are gone.
func (d *delivery) cancelAll() {
	for _, r := range []*ring{&d.sys, &d.replay, &d.ring} {
		for r.len() > 0 {
			if _, msg, l := r.pop(); l != laneSystem {
				d.faults.cancel(msg)
			}
		}
	}
}

// trim gives the memory of a burst back. Called when the shard goes to sleep.
func (d *delivery) trim() {
	d.ring.trim(keepRing)
	d.replay.trim(keepRing)
}

const minRing = 256 // entries; a power of two

// ring is a growing FIFO of entries, used by the shard's owner alone.
type ring struct {
	buf  []entry // len is a power of two, or 0
	head uint64  // of the oldest
	n    uint64  // how many there are
}

func (r *ring) len() int { return int(r.n) }

func (r *ring) push(m *mailbox, msg any, l lane) {
	if r.n == uint64(len(r.buf)) {
		r.grow()
	}
	e := &r.buf[(r.head+r.n)&uint64(len(r.buf)-1)]
	e.m, e.msg, e.lane = m, msg, l
	m.bars += barPending
	r.n++
}

// pop takes the oldest entry. Precondition: the ring is not empty. It reads field
// by field: a hop pops what it has just pushed, and a wide load of several stores
// would have to wait until they have reached the cache.
func (r *ring) pop() (m *mailbox, msg any, l lane) {
	e := &r.buf[r.head&uint64(len(r.buf)-1)]
	m, msg, l = e.m, e.msg, e.lane
	e.m, e.msg = nil, nil
	m.bars -= barPending
	r.head++
	r.n--
	return m, msg, l
}

func (r *ring) grow() {
	buf := make([]entry, max(minRing, 2*len(r.buf)))
	for i := range r.n {
		buf[i] = r.buf[(r.head+i)&uint64(len(r.buf)-1)]
	}
	r.buf, r.head = buf, 0
}

// trim gives the memory of a burst back if the ring is empty and larger than keep.
func (r *ring) trim(keep int) {
	if r.len() == 0 && len(r.buf) > keep {
		*r = ring{}
	}
}

// count returns how many entries are for m.
func (r *ring) count(m *mailbox) (n int) {
	for i := range r.n {
		if r.buf[(r.head+i)&uint64(len(r.buf)-1)].m == m {
			n++
		}
	}
	return n
}

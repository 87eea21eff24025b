package shard

import "context"

// A message with nothing ahead of it need not go through the ring: the handler that
// it would reach may be called at once, on the caller's stack. The order between two
// actors is the same either way.

// maxDepth bounds how many handlers are called from within each other.
const maxDepth = 8

// callStack lists the actors whose handlers are on the goroutine's stack. The innermost
// is the one at work: a panic is its failure. Owner only.
type callStack struct {
	on    [maxStack]*mailbox // on[0] is the one that the turn called, nil for none
	msg   any                // the message in hand, if protoactor is to know of it when the actor at work fails
	depth uint               // of the actor at work in on; those from 1 on have barEntered set
	limit uint               // maxDepth, or 0 after QueueAll
}

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

// Unburdened reports whether no message is under way to the actor and no handler of it is on
// the stack, so that nothing is lost if it is stopped now. Shard only.
func (s *Shard) Unburdened(to Ref) bool {
	m := to.m
	return m != nil && m.bars&^barSlow == 0 && s.delivery.stack.on[0] != m && (fastG || s.inbox.idle())
}

// Pending is how many messages are in the rings for the actor. Shard only.
func Pending(to Ref) int {
	if to.m == nil {
		return 0
	}
	return to.m.bars.pending()
}

// Exit ends what Enter began, if the handler has returned. Where it may panic and the
// caller has to go on, Leave is deferred instead.
func (s *Shard) Exit() { s.delivery.stack.pop() }

// QueueAll makes every message go through the ring from now on: for tests, which compare
// that with what happens otherwise. Shard only.
func (s *Shard) QueueAll() { s.delivery.stack.limit = 0 }

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

// Call has the actor handle m at once if Enter allows it, and tells it m otherwise.
// Shard only.
func (s *Shard) Call(to Ref, m Msg) {
	if to.IsZero() || !s.Enter(to) {
		s.Tell(to, m)
		return
	}
	to.m.receive(m)
}

// receive is Receive on the caller's stack. Precondition: the caller has entered m.
func (m *mailbox) receive(msg Msg) {
	defer m.s.Leave(Ref{m})
	m.msg = msg
	m.actor.Receive((*refContext)(m))
	m.msg = nil
}

// A goroutine that finds a lent shard without an owner calls a poller in the same way.

// Claim adopts a lent shard: a manual one, or a pinned one where processors are few. It
// reports false if the shard has an owner, is closing, or is not lent. Run and Release come
// then, or RunAndWait. What follows Release is left to the helper if no goroutine waits.
func (s *Shard) Claim() bool {
	return s.claims.Load() && s.owner.g.Load() == 0 && s.owner.g.CompareAndSwap(0, getg())
}

// Run polls p on a shard that was claimed, and no other poller; then it ends the turn, for
// all of them.
func (s *Shard) Run(p *Polled) {
	if !s.sched.over {
		s.clock.left -= adoptCost
		if s.step(p, phaseDeliver) < 0 {
			s.goOn(p)
		}
	}
}

// RunAndWait polls p first on a shard that was claimed, in a turn that polls all others, too.
// Then it waits for sig as Wait does, and leaves the shard.
func (s *Shard) RunAndWait(ctx context.Context, sig *Signal, p *Polled) error {
	sig.here = true
	if !s.sched.over {
		s.clock.left -= adoptCost
		if s.step(p, phaseInbox) < 0 {
			s.goOn(p)
		}
	}
	if !sig.IsSet() {
		w := wait{s, ctx, sig}
		return w.manual(true)
	}
	s.drives++
	sig.here = false
	s.Release()
	return nil
}

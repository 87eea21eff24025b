package shard

import "context"

// A manual shard belongs to the goroutine that waits. The rules:
//
//   - A waiter that can adopt the shard drives it: it turns the shard until its signal
//     is set.
//   - One that cannot polls its signal, then parks in the list of waiters.
//   - A driver that leaves wakes a parked waiter to drive. With none, it wakes the
//     helper if the helper sleeps without a time limit.
//   - A driver that finds nothing to do for Config.Spin parks like the others and hands
//     the shard to the helper at once, which sleeps on the descriptors for all.
//   - The helper takes a shard that was neither owned nor driven during one of its
//     intervals, which get longer while others drive. It gives way to a waiter within
//     a turn, and owns nothing while it sleeps.
//
// A goroutine that polls instead of waiting calls Drive. One that has something to do
// on a shard that nobody owns claims the shard, has one poller do the work, and leaves
// or waits: Claim, then Run and Release, or RunAndWait.

// Drive runs one turn of a manual shard that has no owner and returns how much was
// done: progress for a goroutine that polls instead of waiting. If the helper has the
// shard it is asked to make way, so the next call may get it. On shards of other modes,
// and on one that the caller owns, it does nothing.
func (s *Shard) Drive() int {
	if s.mode != Manual || s.external || s.OnShard() {
		return 0
	}
	if !s.owner.take() {
		s.waiters.want()
		return 0
	}
	s.drives++
	s.clock.spend(adoptCost)
	n := s.Turn()
	s.Release()
	return n
}

// Claim adopts a manual shard. It reports false if the shard has an owner, is closing,
// or is of another mode. Run and Release come then, or RunAndWait. What follows Release
// is left to the helper if no goroutine waits.
func (s *Shard) Claim() bool {
	return s.mode == Manual && !s.external && s.waiter == nil && !s.closing.Load() && s.owner.take()
}

// Run polls p alone on a shard that was claimed, and makes a whole turn of it if that
// did anything. A panic in p is a failure of the actor as.
func (s *Shard) Run(as Ref, p Poller) {
	n := s.pollAlone(as, p)
	if n > 0 || !s.delivery.empty() {
		s.sched.turn(s, phaseDeliver, n)
	}
}

// RunAndWait polls p alone on a shard that was claimed, then waits for sig as Wait does, and
// leaves the shard. The first turn of the wait ends what p has begun.
func (s *Shard) RunAndWait(ctx context.Context, sig *Signal, as Ref, p Poller) error {
	s.sched.ahead = s.pollAlone(as, p)
	w := wait{s, ctx, sig}
	return w.manual(true)
}

// pollAlone polls p and nothing else for a new owner of s, and returns how much was done:
// not 0 if p panicked, and 0 if it may not run.
func (s *Shard) pollAlone(as Ref, p Poller) (n int) {
	s.clock.adopted()
	c := &s.sched
	if c.over || as.m.suspended {
		return 0
	}
	n = 1 // of a panic
	c.inTurn, s.clock.fresh, c.phase = true, false, phasePoll
	defer s.rescueStep()
	s.delivery.stack.cur, s.delivery.stack.msg = as.m, nil
	n = p.Poll(s)
	s.delivery.stack.cur = nil
	c.phase, c.inTurn = phaseOver, false
	return n
}

// leave ends the caller's ownership for a waiter that asked for the shard, if any. The
// caller knows that the helper looks after the shard otherwise.
func (s *Shard) leave() {
	s.owner.drop()
	if s.waiters.takeWant() {
		s.waiters.wakeOne()
	}
}

// handOver finds a goroutine to look after a shard that its driver has left.
func (s *Shard) handOver() {
	if s.waiters.parked.Load() != 0 && s.waiters.wakeOne() {
		return
	}
	s.Wake()
}

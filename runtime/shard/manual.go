package shard

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
//
// A pinned shard that is lent follows the same rules. Its helper is the pinned thread, which
// has the shard unless a goroutine waits or polls.

// Drive runs one turn of a manual shard that has no owner and returns how much was
// done: progress for a goroutine that polls instead of waiting. If the helper has the
// shard it is asked to make way, so the next call may get it. On shards of other modes,
// and on one that the caller owns, it does nothing.
func (s *Shard) Drive() int {
	if !s.lent {
		return 0
	}
	if !s.owner.take() {
		if !s.OnShard() {
			s.waiters.want()
		}
		return 0
	}
	s.drives++
	s.clock.spend(adoptCost)
	n := s.Turn()
	s.Release()
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

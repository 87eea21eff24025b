// Package shard runs protoactor actors to completion on one goroutine at a time,
// together with the device queues they serve.
//
//	any goroutine                     the owner's goroutine
//	Post, PID sends --> inbox --+
//	                            v
//	 +--> drain inbox -> poll -> system ring, replay ring, FIFO ring -> flush --+
//	 |                             ^ Tell, ctx.Send, timers                     |
//	 +------------------------- timers -----------------------------------------+
//
// One round of that is a Turn. Actors are ordinary protoactor actors with PIDs,
// Props and supervision; only their mailbox is ours. A message reaches one by two
// lanes. The PID lane is ctx.Send and its like: protoactor's full meaning. The
// Ref lane is Shard.Tell: the same Receive with a context that costs a third.
// Both use one FIFO ring, so order between two actors holds whichever is used.
// The Ref lane has no sender, so AutoRespond messages belong in the PID lane;
// actors with receiver middleware, context decorators or a receive timeout get
// the real invoker in both.
//
// The mode says who owns the loop: a pinned thread, the goroutines that wait
// (manual), a goroutine (cooperative), or, with Config.External, a simulation.
// In each a shard makes progress by itself, except the external one, and sleeps
// when there is nothing to do: in ppoll over an eventfd and the descriptors of
// its pollers. manual.go has the rules of handing a manual shard over.
//
// Invariants:
//
//   - g, the owner's goroutine, is also the lock: who sets it from 0 owns
//     everything below "Owned by the owner" in Shard.
//   - A pinned thread uses no channel, mutex or Gosched until it ends; the
//     notifier wakes goroutines for it. Dead letters, spawning and failures
//     take protoactor's locks; they are no part of the hot path.
//   - Nothing that was told vanishes silently: it is received, or canceled
//     (Canceled, Stats). Exceptions are protoactor's: a message that made its
//     actor panic, and PID sends to a PID whose actor is gone, which become dead
//     letters.
//   - An external shard with a given clock and seed repeats exactly.
//
// Supervision windows are of the shard's clock with OneForOne, which is also the
// default of Spawn and SpawnChild. protoactor's own strategies, and the
// RestartStatistics they are given, use the system's.
//
// The build tag purego, and any architecture but amd64 and arm64, go without the
// assembly that tells the owner's goroutine from others: every message then
// takes the inbox.
//
// The package needs Linux. Start reading at turn.go, then deliver.go.
package shard

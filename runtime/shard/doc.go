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
// Props and supervision; only their mailbox is this package's. A message reaches an
// actor by one of two lanes. The PID lane is ctx.Send and its like: protoactor's full
// meaning. The Ref lane is Shard.Tell: the same Receive with a context that costs a
// third. Both use one FIFO ring, so order between two actors holds whichever is used.
// The Ref lane has no sender, so AutoRespond messages belong in the PID lane;
// actors with receiver middleware, context decorators or a receive timeout get
// the real invoker in both.
//
// A message with nothing ahead of it need not wait for its turn on the ring. On the
// shard, Shard.Enter makes an actor the one at work if no message is under way to it
// and none of its handlers is on the stack; the caller then calls the actor's handler
// itself, on its own stack, and ends with Shard.Leave. Shard.Call does that for a
// message and Receive, and tells the message where Enter says no. The order between two
// actors is the same either way, and a panic is the failure of the actor that was
// entered last. Shard.QueueAll turns this off, so that tests can compare the two.
//
// The mode says which goroutine owns the loop: a pinned thread (lent to the goroutines that
// wait, as a manual shard is, where processors are few), the goroutines that wait
// (manual), or, with Config.External, a simulation. In each a shard makes progress by itself, except the external one, and
// sleeps when there is nothing to do: until a bell rings, which is an eventfd, or a descriptor of
// its pollers is readable. wait.go has the rules of handing a lent shard over.
//
// Shard is the public face and wires the parts together. Each part has its state and
// says which goroutine may use it:
//
//	shard.go      Shard; owner: which goroutine owns the shard; lifetime: start and Close
//	config.go     Config and Mode
//	turn.go       scheduler: the present turn, and who may run it (Claim); pollers: sources of work; shardClock: the time and its budget
//	message.go    Msg, Ref, Tell, Call; callStack: the handlers on the stack; delivery: the rings
//	mailbox.go    mailbox: an actor's place on the shard; refContext: the context of the Ref lane
//	inbox.go      inbox: messages from other goroutines
//	supervise.go  spawner: spawning; root, oneForOne: supervision and stopping; faults: what went wrong
//	wait.go       wait: one call of Wait; waiters: goroutines parked on a manual shard; Drive; Signal; notifier: wakes them
//	loop.go       helper: the goroutine of a lent shard; idling: how long to spin before a sleep
//	sleep.go      sleeper: sleeping and waking; parking: whether a goroutine sleeps for the shard
//	wheel.go      Timer and the timing wheel
//	affinity.go   the CPU of a pinned shard
//
// Invariants:
//
//   - owner is also the lock: the goroutine that sets it from 0 owns everything below
//     "Owned by the owner" in Shard.
//   - The thread of a pinned shard that is not lent uses no channel, mutex or Gosched
//     until it ends; the notifier wakes goroutines for it. Dead letters, spawning and
//     failures take protoactor's locks; they are no part of the hot path.
//   - No message is lost silently: it is received, or canceled (Canceled, Stats).
//     The exceptions are protoactor's: a message that made its actor panic, and PID
//     sends to a PID whose actor is gone, which become dead letters.
//   - An external shard with a given clock and seed repeats exactly.
//
// Supervision windows are in the shard's time with OneForOne, which is also the
// default of Spawn and SpawnChild. protoactor's own strategies, and the
// RestartStatistics they are given, use the system's.
//
// The build tag purego, and any architecture but amd64 and arm64, go without the
// assembly that names the calling goroutine: every message then takes the inbox.
//
// Start reading at Shard.Turn and Shard.step in turn.go, then Tell, Call and delivery in message.go.
package shard

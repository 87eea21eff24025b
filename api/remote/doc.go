// Package remote lets actors of several processes talk to each other: it is the remote of a
// protoactor-go ActorSystem, over efactor endpoints. PIDs of other processes are used as those of
// this one are: Send, Request with a future, Watch and Terminated, Stop and Poison; actors are
// spawned elsewhere by kind.
//
//	system := actor.NewActorSystem()
//	g, err := launch.Init(ctx)
//	...
//	r, err := remote.Start(system, g) // before anything is spawned
//	defer r.Close(ctx)
//	there := actor.NewPID(g.Addresses[1].String(), "greeter")
//	system.Root.Send(there, &Hello{})
//
// Without a launcher, [Config.Listen] gives a process an address host:port that others name, and
// that stays when the process is started again; [Config.Advertise] where it listens at 0.0.0.0.
//
// What is promised: messages from one sender to one receiver arrive in order, at most once. One that
// cannot be delivered is a dead letter where it was sent, with a DeadLetterResponse for a future. What
// was under way to a process that dies is lost without one, but futures that wait for its answers end
// the same way, and watchers of its actors get Terminated with AddressTerminated. docs/remote.md has the protocol between two processes.
//
// Start reading at remote.go, then names.go (where an address leads), link.go (a session), frame.go (frames and
// their envelopes), receive.go and hello.go; watch.go and spawn.go are watching and remote spawning.
package remote

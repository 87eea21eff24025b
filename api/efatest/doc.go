// Package efatest runs programs that use package efa in simulated time: any
// number of them, each with endpoints of its own, one at a time and in an order
// that a seed decides, on a fabric that shuffles, delays and refuses packets as
// configured. The same seed gives the same run, to the byte of [Config].Log.
//
//	w, err := efatest.New(efatest.Config{Seed: 42})
//	dev, err := w.Device(efatest.DeviceConfig{})
//	fab, err := efa.Open(efa.Config{Device: dev})
//	... // domain, address vector, endpoint as on any device
//	w.Go("alice", func(ctx context.Context) error { return ep.Send(ctx, bob, msg) })
//	w.Go("bob", func(ctx context.Context) error { ... })
//	err = w.Run()
//
// A program waits by calling package efa, or Sleep and Yield of its [World]; it
// must not wait in any other way, and not for real time: a context with a
// deadline comes from [World.WithTimeout]. Time passes only while all programs
// and all shards have nothing to do, and then jumps to the next event. Since one
// goroutine runs at a time, programs must not meet in a lock either: no two read
// one efa.Queue at a time, nor close one endpoint.
//
// A call outside Run, such as Enable, runs the world until it is done. Worlds are
// independent of each other: tests may run many at once.
//
// Start reading at world.go. program.go is a program as a coroutine, device.go
// a device in its world, seeds_test.go the simulation of the whole
// stack.
package efatest

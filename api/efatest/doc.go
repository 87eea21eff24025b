// Package efatest runs programs that use package efa in simulated time: any
// number of them, each with endpoints of its own, in one goroutine at a time and
// in an order that a seed decides, on a fabric that shuffles, delays and refuses
// packets as asked. The same seed gives the same run, to the byte.
//
//	w, err := efatest.New(efatest.Config{Seed: 42})
//	w.Go("a", func(ctx context.Context) error { ... efa.Open(efa.Config{Device: w.Device("a")}) ... })
//	w.Go("b", func(ctx context.Context) error { ... })
//	err = w.Run()
//
// A program waits by calling package efa; it must not wait in any other way.
// Time passes only while all programs wait.
package efatest

// Package trace is the way of small records from a shard to whoever makes sense of
// them: a shard writes into a ring of its own ([Ring.Put], no lock, no allocation),
// another goroutine reads it. A full ring drops and counts, and says so with a
// record in the place of those that are missing ([Gap]); the shard never waits.
package trace

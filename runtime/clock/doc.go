// Package clock is where the time comes from, so that a simulation can supply
// its own: a shard reads its clock once a turn and never the system's.
package clock

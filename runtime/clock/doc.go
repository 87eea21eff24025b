// Package clock is the source of time, so that a simulation can supply its own: a
// shard reads its clock once per turn and never the system's.
package clock

// Package clock is where the time comes from, so that a simulation can supply
// its own: a shard reads its clock once a turn and never the system's.
package clock

import "time"

// Time is nanoseconds on a monotonic scale with an arbitrary zero.
type Time int64

// Add returns t+d.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// Sub returns t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Clock tells the time. Now may be called from any goroutine.
type Clock interface {
	Now() Time
}

type system struct{ zero time.Time }

func (s system) Now() Time { return Time(time.Since(s.zero)) }

// System is the machine's monotonic clock.
var System Clock = system{time.Now()}

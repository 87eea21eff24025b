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

// Deadline is the wall time d from now, for the deadlines of sockets.
func Deadline(d time.Duration) time.Time { return time.Now().Add(d) }

// Wall is the wall clock, for what people read.
func Wall() time.Time { return time.Now() }

// Pause lets Go's scheduler run other goroutines, and look at the network, which it does not do
// between goroutines that are always ready. It takes some microseconds.
func Pause() { time.Sleep(time.Microsecond) }

// OfDay is the wall time at a time of System, computed from the wall time at the
// program's start. It does not follow corrections of the wall clock.
func OfDay(t Time) time.Time { return System.(system).zero.Round(0).Add(time.Duration(t)) }

// NewTimer is a timer of real time, for goroutines that exist in no simulation.
func NewTimer(d time.Duration) *time.Timer { return time.NewTimer(d) }

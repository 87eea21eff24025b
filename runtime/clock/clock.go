package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

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

// Manual is a clock that advances only when told to. The zero value shows time 0.
// Any goroutine may use it.
type Manual struct{ now atomic.Int64 }

// Now returns the time that was set.
func (m *Manual) Now() Time { return Time(m.now.Load()) }

// Advance moves the clock on by d and returns the new time. A clock never goes
// back: a negative d is ignored.
func (m *Manual) Advance(d time.Duration) Time {
	if d <= 0 {
		return m.Now()
	}
	return Time(m.now.Add(int64(d)))
}

// Set moves the clock to t, unless it is past that already.
func (m *Manual) Set(t Time) {
	for {
		old := m.now.Load()
		if int64(t) <= old || m.now.CompareAndSwap(old, int64(t)) {
			return
		}
	}
}

// Alarm calls a function when a time is over, of real time: for goroutines that exist in no
// simulation. Any goroutine may call its methods.
type Alarm struct {
	f     func()
	mu    sync.Mutex
	timer *time.Timer
	every time.Duration // 0: once
}

// NewAlarm makes an alarm that is not set. The function is called by a goroutine of its own.
func NewAlarm(f func()) *Alarm {
	a := &Alarm{f: f}
	a.timer = time.AfterFunc(time.Hour, a.ring)
	a.timer.Stop()
	return a
}

// Once sets it to d from now, instead of what it was set to.
func (a *Alarm) Once(d time.Duration) { a.set(d, 0) }

// Every sets it to each d from now on; 0: it is not set any more.
func (a *Alarm) Every(d time.Duration) {
	if d <= 0 {
		a.Stop()
		return
	}
	a.set(d, d)
}

func (a *Alarm) set(d, every time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.every = every
	a.timer.Reset(d)
}

// Stop ends it. A call of the function that has begun goes on.
func (a *Alarm) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.every = 0
	a.timer.Stop()
}

func (a *Alarm) ring() {
	a.mu.Lock()
	if a.every > 0 {
		a.timer.Reset(a.every)
	}
	a.mu.Unlock()
	a.f()
}

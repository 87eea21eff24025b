package clock

import (
	"sync/atomic"
	"time"
)

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

package clock

import (
	"sync"
	"time"
)

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

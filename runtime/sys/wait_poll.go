//go:build !linux

package sys

import "time"

// WaitSet is what one goroutine at a time sleeps on: a bell, as [OpenEvent] returns it. No driver of this system has
// descriptors.
type WaitSet struct{ bell int }

// Open makes the set.
func (w *WaitSet) Open(bell int) error {
	w.bell = bell
	return nil
}

// Watch makes fds those that end a sleep besides the bell, where drivers have descriptors.
func (w *WaitSet) Watch([]int, uint64) bool { return true }

// SetAside has the descriptors of Watch end no sleep.
func (w *WaitSet) SetAside() {}

// Wait sleeps until the bell rings or d is over; a negative d: without limit. It silences the bell, and reports
// whether it rang.
func (w *WaitSet) Wait(d time.Duration) (rang bool) { return w.Nap(d) }

// Nap is Wait in a system call, which the thread does not leave.
func (w *WaitSet) Nap(d time.Duration) (rang bool) {
	if !WaitEvent(w.bell, d) {
		return false
	}
	DrainEvent(w.bell)
	return true
}

// Close has nothing to give back.
func (w *WaitSet) Close() error { return nil }

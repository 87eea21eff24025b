package sys

import (
	"runtime"
	"time"

	"golang.org/x/sys/windows"
)

// WaitEvent waits until the read end of an event is readable, or for d at most, rounded up to milliseconds; a negative d:
// without limit. It reports whether the end is readable.
func WaitEvent(r int, d time.Duration) bool {
	ms := uint32(windows.INFINITE)
	if d >= 0 {
		ms = uint32(min((d+time.Millisecond-1)/time.Millisecond, windows.INFINITE-1))
	}
	event, err := windows.WaitForSingleObject(windows.Handle(r), ms)
	return err == nil && event == windows.WAIT_OBJECT_0
}

// Yield lets another thread of this CPU run.
func Yield() { runtime.Gosched() }

// OpenEvent returns the two ends of an event, which are one handle here: an event that stays
// set until DrainEvent.
func OpenEvent() (r, w int, err error) {
	const manual = 1
	h, err := windows.CreateEvent(nil, manual, 0, nil)
	return int(h), int(h), err
}

// SignalEvent makes the read end readable.
func SignalEvent(w int) { _ = windows.SetEvent(windows.Handle(w)) }

// DrainEvent makes the read end unreadable again.
func DrainEvent(r int) { _ = windows.ResetEvent(windows.Handle(r)) }

// CloseEvent closes one end of an event.
func CloseEvent(fd int) error { return windows.CloseHandle(windows.Handle(fd)) }

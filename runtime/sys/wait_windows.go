package sys

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/windows"
)

// PollFd is a handle to wait for, as OpenEvent returns it, and what has happened to it.
type PollFd struct {
	Fd      int32
	Events  int16
	Revents int16
}

// POLLIN is the event that a handle is set.
const POLLIN = 1

// Timespec is a duration.
type Timespec struct{ ns int64 }

// NsecToTimespec is a duration as Ppoll takes it.
func NsecToTimespec(ns int64) Timespec { return Timespec{ns} }

// pollMost is how many handles the system waits for at once.
const pollMost = 64

// Ppoll waits until one of fds is set, or for ts at most, rounded up to milliseconds; nil:
// for ever. It returns how many are set. It takes 64 handles at most.
func Ppoll(fds []PollFd, ts *Timespec) (int, error) {
	if len(fds) > pollMost {
		return 0, fmt.Errorf("waiting for %d handles, the most is %d: %w", len(fds), pollMost, ErrUnsupported)
	}
	ms := uint32(windows.INFINITE)
	if ts != nil {
		ms = uint32(min((time.Duration(ts.ns)+time.Millisecond-1)/time.Millisecond, windows.INFINITE-1))
	}
	if len(fds) == 0 {
		windows.SleepEx(ms, false)
		return 0, nil
	}
	var handles [pollMost]windows.Handle
	for i := range fds {
		handles[i], fds[i].Revents = windows.Handle(fds[i].Fd), 0
	}
	if event, err := windows.WaitForMultipleObjects(handles[:len(fds)], false, ms); err != nil {
		return 0, err
	} else if event == uint32(windows.WAIT_TIMEOUT) {
		return 0, nil
	}
	n := 0
	for i := range fds {
		if event, err := windows.WaitForSingleObject(handles[i], 0); err != nil {
			return n, err
		} else if event == windows.WAIT_OBJECT_0 {
			fds[i].Revents = POLLIN
			n++
		}
	}
	return n, nil
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

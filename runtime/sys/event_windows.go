package sys

import "golang.org/x/sys/windows"

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

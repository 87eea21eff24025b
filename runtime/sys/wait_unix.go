//go:build unix

package sys

import (
	"golang.org/x/sys/unix"
)

// PollFd is a descriptor to wait for, and what has happened to it.
type PollFd = unix.PollFd

// POLLIN is the event that a descriptor is readable.
const POLLIN = unix.POLLIN

// NsecToTimespec is a duration as Ppoll takes it.
func NsecToTimespec(ns int64) Timespec { return unix.NsecToTimespec(ns) }

// Timespec is a duration.
type Timespec = unix.Timespec

// CloseEvent closes one end of an event.
func CloseEvent(fd int) error { return unix.Close(fd) }

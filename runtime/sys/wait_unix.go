//go:build unix

package sys

import "golang.org/x/sys/unix"

// CloseEvent closes one end of an event.
func CloseEvent(fd int) error { return unix.Close(fd) }

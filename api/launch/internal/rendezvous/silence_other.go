//go:build !linux

package rendezvous

import "syscall"

// boundSilence leaves it at what the system does.
func boundSilence(syscall.RawConn) error { return nil }

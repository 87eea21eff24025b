//go:build unix

package efadebug

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock keeps other processes' captures, and others of this one, from a file as long as it is open.
func lock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

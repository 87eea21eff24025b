package sys

import "golang.org/x/sys/unix"

// CPUSet is a set of CPUs by number.
type CPUSet = unix.CPUSet

// SchedGetaffinity says where a process may run.
func SchedGetaffinity(pid int, set *CPUSet) error { return unix.SchedGetaffinity(pid, set) }

// SchedSetaffinity says where a thread, 0 for the calling one, is to run.
func SchedSetaffinity(pid int, set *CPUSet) error { return unix.SchedSetaffinity(pid, set) }

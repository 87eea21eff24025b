package pp

import (
	"os"

	"golang.org/x/sys/unix"
)

// OtherCPU is the place for the pinned thread of a client. A server's goes to the
// highest CPU that it may use; if the client is on the same host and does as the
// server does, the two take turns on one CPU, while this is the next lower. nil
// if there is none.
func OtherCPU() []int {
	var allowed unix.CPUSet
	if unix.SchedGetaffinity(os.Getpid(), &allowed) != nil {
		return nil // the domain will say what is wrong
	}
	last := true
	for cpu := len(allowed)*64 - 1; cpu >= 0; cpu-- {
		switch {
		case !allowed.IsSet(cpu):
		case last:
			last = false
		default:
			return []int{cpu}
		}
	}
	return nil
}

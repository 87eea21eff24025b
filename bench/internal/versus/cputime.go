package versus

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// OwnCPU is what this process has used.
func OwnCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// CPUTime is what the threads of a process have used, by the kernel's count in nanoseconds.
// 0: unknown. Threads that have ended are not in it; Go keeps its threads.
func CPUTime(pid int) (sum time.Duration) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // a thread that has ended
		}
		if first, _, ok := bytes.Cut(b, []byte(" ")); ok {
			ns, _ := strconv.ParseInt(string(first), 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}

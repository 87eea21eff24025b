package versus

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/runtime/clock"
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
	for _, b := range ofThreads(pid, "schedstat") {
		if first, _, ok := bytes.Cut(b, []byte(" ")); ok {
			ns, _ := strconv.ParseInt(string(first), 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}

// ofThreads reads a file of each thread of a process.
func ofThreads(pid int, name string) (texts [][]byte) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/%s", pid, name))
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil { // else the thread has ended
			texts = append(texts, b)
		}
	}
	return texts
}

// Compute keeps the CPU busy for some time, without a system call.
func Compute(d time.Duration) {
	for began := clock.System.Now(); clock.System.Now().Sub(began) < d; {
	}
}

// ComputeCPU does the same, and returns what it has used of the CPU: less where others had it meanwhile.
func ComputeCPU(d time.Duration) time.Duration {
	runtime.LockOSThread() // whose time it is
	defer runtime.UnlockOSThread()
	used := threadCPU()
	Compute(d)
	return threadCPU() - used
}

func threadCPU() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

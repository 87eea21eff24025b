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

// Switches is how often the threads of a process have given their CPU away to wait. Threads that have ended are not in it.
func Switches(pid int) (sum int) {
	for _, b := range ofThreads(pid, "status") {
		if _, after, ok := bytes.Cut(b, []byte("\nvoluntary_ctxt_switches:")); ok {
			first, _, _ := bytes.Cut(after, []byte("\n"))
			n, _ := strconv.Atoi(string(bytes.TrimSpace(first)))
			sum += n
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

// Compute keeps the CPU busy for some time, and returns what it has used of it: less where others had it meanwhile.
func Compute(d time.Duration) time.Duration {
	runtime.LockOSThread() // whose time it is
	defer runtime.UnlockOSThread()
	used, began := threadCPU(), clock.System.Now()
	for clock.System.Now().Sub(began) < d {
	}
	return threadCPU() - used
}

func threadCPU() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

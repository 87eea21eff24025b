package versus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/runtime/clock"
)

// Counts are those of the system calls of processes, and of how often their threads gave the CPU away to wait. The naps
// (nanosleep) of Go's runtime, whose monitor looks after busy goroutines by time, are in neither. Nor
// are sched_yield's calls, with which a wait polls as long as that pays: their number says only how long the waits were. Calls are counted at a
// tracepoint of the kernel, which costs each some 50 ns, so that times are measured without.
type Counts struct {
	pids     []int
	switches int
	calls    []int // counters
	naps     []int
	err      error // why there are no counters
}

// Settle waits before an idle process is measured for d: what came before goes on for up to three seconds where d is half of
// one, in Go's runtime and in devices that still look after processes that have ended.
func Settle(d time.Duration) { <-clock.NewTimer(6 * d).C }

var errCounters = errors.New("the kernel counts no system calls for us")

// Count begins to count, for all threads that the processes have or start.
func Count(pids ...int) *Counts {
	c := &Counts{pids: pids, switches: switchesOf(pids)}
	id, err := tracepoint()
	if err != nil {
		c.err = err
		return c
	}
	for _, pid := range pids {
		threads, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*")
		for _, path := range threads {
			tid, _ := strconv.Atoi(filepath.Base(path))
			c.err = errors.Join(c.err, open(&c.calls, id, tid, others), open(&c.naps, id, tid, naps))
		}
	}
	return c
}

// Calls reports why there are none, if the kernel does not let us count them.
func (c *Counts) Calls() error { return c.err }

// tracepoint is the kernel's number of the one that every system call passes.
func tracepoint() (uint64, error) {
	for _, root := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		if b, err := os.ReadFile(root + "/events/raw_syscalls/sys_enter/id"); err == nil {
			return strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 64)
		}
	}
	return 0, errCounters
}

// Close ends the counting. Where the kernel counts no calls there are none, and the naps are among the switches.
func (c *Counts) Close() (calls, switches int) {
	calls, naps := total(c.calls), total(c.naps)
	c.calls, c.naps = nil, nil
	switches = switchesOf(c.pids) - c.switches
	if c.err != nil {
		return 0, switches
	}
	return calls, max(switches-naps, 0)
}

// total reads counters and closes them.
func total(counters []int) (sum int) {
	for _, fd := range counters {
		var b [8]byte
		if n, _ := unix.Read(fd, b[:]); n == len(b) {
			sum += int(binary.NativeEndian.Uint64(b[:])) //nolint:gosec // a count
		}
		_ = unix.Close(fd) // it is only read
	}
	return sum
}

// switchesOf is how often the threads of processes have given their CPU away to wait. Threads that have ended are not in it.
func switchesOf(pids []int) (sum int) {
	for _, pid := range pids {
		for _, b := range ofThreads(pid, "status") {
			if _, after, ok := bytes.Cut(b, []byte("\nvoluntary_ctxt_switches:")); ok {
				first, _, _ := bytes.Cut(after, []byte("\n"))
				n, _ := strconv.Atoi(string(bytes.TrimSpace(first)))
				sum += n
			}
		}
	}
	return sum
}

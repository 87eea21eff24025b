//go:build amd64 || arm64

package efa_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/internal/testenv"
)

// costEnv makes the test binary the process whose system calls are counted; its value is
// a directory.
const costEnv = "EFACTOR_COSTS_CHILD"

const (
	costRounds = 12      // of which the one with the fewest counts
	costMark   = 0x5eed1 // getpriority(costMark, case, begins) bounds a round; the kernel refuses it
)

func init() { // on the main thread, which alone is traced
	if dir := os.Getenv(costEnv); dir != "" {
		if err := costChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

func costChild(dir string) error {
	debug.SetGCPercent(-1)
	for _, kind := range costDevices {
		if kind == "sim" {
			continue // it is nothing but memory
		}
		p, err := openCostPair(kind, dir)
		if err != nil {
			return err
		}
		for i, c := range costCases() {
			if c.device != kind {
				continue
			}
			if err := p.warmUp(c); err != nil {
				return err
			}
			for range costRounds {
				_, _, _ = unix.Syscall(unix.SYS_GETPRIORITY, costMark, uintptr(i), 1)
				for range c.batch() {
					if err := p.once(c); err != nil {
						return err
					}
				}
				_, _, _ = unix.Syscall(unix.SYS_GETPRIORITY, costMark, uintptr(i), 0)
			}
		}
		if err := p.close(); err != nil {
			return err
		}
	}
	return nil
}

// ofScheduler are calls that Go's scheduler makes on whatever thread it runs; nothing in this
// module makes them itself.
var ofScheduler = []uint64{
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_SCHED_YIELD, unix.SYS_TGKILL, unix.SYS_RT_SIGRETURN,
	unix.SYS_RT_SIGPROCMASK, unix.SYS_MADVISE, unix.SYS_CLONE, unix.SYS_GETPID,
}

// asking are calls that only ask what is ready.
var asking = []uint64{unix.SYS_EPOLL_PWAIT, unix.SYS_PPOLL}

// TestSystemCalls counts the system calls of the thread that works for both endpoints in a
// process of its own, by ptrace(2): no other thread of Go's runtime is looked at.
func TestSystemCalls(t *testing.T) {
	testenv.Long(t, "it counts the system calls of a machine that does nothing else")
	if raceEnabled {
		t.Skip("the race detector makes calls of its own")
	}
	want := map[string]costLine{}
	if !*writeCosts {
		want = readCosts(t)
	}
	rounds := map[int][]map[uint64]int{}
	for try := 1; ; try++ { // beside other programs the shard's helper wakes late, and each operation calls it until then
		for i, more := range tracedRounds(t) {
			rounds[i] = append(rounds[i], more...)
		}
		found, misfits := callsOf(t, rounds, want)
		switch {
		case *writeCosts && try == 5:
			putCosts(t, found)
			return
		case *writeCosts || len(misfits) > 0 && try < 4:
		default:
			require.Empty(t, misfits)
			return
		}
	}
}

// callsOf makes the lines of the table from the rounds. misfits describes each line that differs from want, with its system
// calls by number.
func callsOf(t *testing.T, rounds map[int][]map[uint64]int, want map[string]costLine) (found map[string]costLine, misfits []string) {
	t.Helper()
	found = map[string]costLine{}
	for i, c := range costCases() {
		if c.device == "sim" {
			continue
		}
		require.GreaterOrEqual(t, len(rounds[i]), costRounds, c)
		var calls, polls []float64
		for _, r := range rounds[i] {
			asked := 0
			for _, nr := range asking {
				asked += r[nr]
			}
			calls = append(calls, float64(total(r)-asked)/float64(c.batch()))
			polls = append(polls, float64(asked)/float64(c.batch()))
		}
		slices.Sort(calls)
		slices.Sort(polls)
		if *writeCosts {
			found[c.String()] = costLine{"calls": bound(calls, 1.25, 0), "polls": bound(polls, 4, 32)}
			continue
		}
		found[c.String()] = costLine{"calls": figure(calls[0]), "polls": figure(polls[0])}
		for col, got := range found[c.String()] {
			if w := want[c.String()]; !w.fits(col, got) {
				misfits = append(misfits,
					fmt.Sprintf("%s: %s %s for one, %s says %q; by number, of %d: %v", c, got, col, costsFile, w[col], c.batch(), rounds[i]))
			}
		}
	}
	return found, misfits
}

func total(calls map[uint64]int) (n int) {
	for _, k := range calls {
		n += k
	}
	return n
}

// bound is what the table is to say of figures that depend on what is ready when: of the most, since in
// many a round the shard's helper, on another thread, makes some of the calls.
func bound(sorted []float64, slack, least float64) string {
	most := sorted[len(sorted)-1]
	if most == 0 {
		return "0"
	}
	return "<=" + figure(max(math.Ceil(most*slack), least))
}

// tracedRounds runs the child and gives the calls by number of each round of each case.
func tracedRounds(t *testing.T) map[int][]map[uint64]int {
	t.Helper()
	runtime.LockOSThread() // ptrace takes requests of the thread that began it
	defer runtime.UnlockOSThread()
	child, err := os.StartProcess(os.Args[0], []string{os.Args[0], "-test.run=^$"}, &os.ProcAttr{
		Env:   append(os.Environ(), costEnv+"="+t.TempDir()),
		Files: []*os.File{nil, os.Stderr, os.Stderr},
		Sys:   &unix.SysProcAttr{Ptrace: true},
	})
	require.NoError(t, err)
	pid := child.Pid
	ended := false
	defer func() {
		if !ended {
			_ = child.Kill()
			_, _ = waitFor(pid)
		}
		_ = child.Release()
	}()
	rounds := map[int][]map[uint64]int{}
	var current map[uint64]int
	for begun := false; ; {
		ws, err := waitFor(pid)
		require.NoError(t, err)
		if ws.Exited() || ws.Signaled() {
			ended = true
			require.True(t, ws.Exited() && ws.ExitStatus() == 0, "the child ended with %#x", uint32(ws))
			return rounds
		}
		if !begun { // it stands at the end of its execve
			require.NoError(t, unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL))
			begun = true
			require.NoError(t, unix.PtraceSyscall(pid, 0))
			continue
		}
		sig := ws.StopSignal()
		if sig != unix.SIGTRAP|0x80 {
			require.NoError(t, unix.PtraceSyscall(pid, int(sig))) // it is the child's, as without us
			continue
		}
		call, args, entry, err := callOf(pid)
		require.NoError(t, err)
		switch {
		case !entry || slices.Contains(ofScheduler, call):
		case call == unix.SYS_GETPRIORITY && args[0] == costMark && args[2] == 1:
			current = map[uint64]int{}
		case call == unix.SYS_GETPRIORITY && args[0] == costMark:
			rounds[int(args[1])] = append(rounds[int(args[1])], current)
			current = nil
		case current != nil:
			current[call]++
		}
		require.NoError(t, unix.PtraceSyscall(pid, 0))
	}
}

func waitFor(pid int) (ws unix.WaitStatus, err error) {
	for {
		if _, err = unix.Wait4(pid, &ws, unix.WALL, nil); !errors.Is(err, unix.EINTR) {
			return ws, err
		}
	}
}

// callOf asks for the call at which a process has stopped: PTRACE_GET_SYSCALL_INFO, the same on every
// architecture.
func callOf(pid int) (nr uint64, args [6]uint64, entry bool, err error) {
	var info struct {
		op        uint8
		_         [3]uint8
		arch      uint32
		ip, sp    uint64
		nr        uint64
		args      [6]uint64
		retOrMore [2]uint64
	}
	const getSyscallInfo, syscallEntry = 0x420e, 1
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, getSyscallInfo, uintptr(pid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return 0, args, false, errno
	}
	return info.nr, info.args, info.op == syscallEntry, nil
}

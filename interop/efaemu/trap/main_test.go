//go:build linux && (amd64 || arm64)

package trap

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/internal/testenv"
)

// The test binary is also the programs of its tests: with roleVar set it plays one
// of roles, with the arguments that it has.
const roleVar = "EFACTOR_TRAP_TEST_ROLE"

var roles = map[string]func(args []string) error{}

func TestMain(m *testing.M) {
	Main()
	if role := os.Getenv(roleVar); role != "" {
		if err := roles[role](os.Args[1:]); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // a second at each program's end is wasted
	runtime.GOMAXPROCS(runtime.NumCPU() + 8)     // as the emulator has it: many threads are in system calls
	goleak.VerifyTestMain(m)
}

// needFeatures ends a test where programs cannot be supervised.
func needFeatures(t testing.TB) {
	t.Helper()
	for _, f := range quickFeatures() {
		if f.Err == nil {
			continue
		}
		testenv.Missing(t, "%s: %v", f.Name, f.Err)
	}
}

// limit is for calls that take milliseconds, or for ever; the machine may be busy.
const limit = 60 * time.Second

// eventually waits for a condition that another process brings about.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for !cond() {
		require.NoError(t, ctx.Err(), what)
		runtime.Gosched()
	}
}

// job is a program that runs under supervision in a test.
type job struct {
	t       testing.TB
	in      *os.File
	out     *bufio.Scanner
	outFile *os.File
	cancel  context.CancelFunc
	done    chan struct{}
	status  int // once done is closed
	err     error
}

// run starts a role under supervision by this process.
func run(t testing.TB, cfg Config, role string, args ...string) *job {
	t.Helper()
	cfg.Env = environment(role)
	return runProgram(t, cfg, append([]string{os.Args[0]}, args...)...)
}

// environment is that of a role.
func environment(role string) []string {
	return append(os.Environ(), roleVar+"="+role)
}

// runProgram starts any program so.
func runProgram(t testing.TB, cfg Config, argv ...string) *job {
	t.Helper()
	needFeatures(t)
	inR, inW, err := os.Pipe()
	require.NoError(t, err)
	outR, outW, err := os.Pipe()
	require.NoError(t, err)
	cfg.Std = [3]*os.File{inR, outW, os.Stderr}
	ctx, cancel := context.WithTimeout(context.Background(), 3*limit)
	j := &job{t: t, in: inW, out: bufio.NewScanner(outR), outFile: outR, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(j.done)
		j.status, j.err = Run(ctx, cfg, argv)
		_ = inR.Close()
		_ = outW.Close()
	}()
	t.Cleanup(func() {
		_ = inW.Close()
		cancel()
		<-j.done
		_ = outR.Close()
	})
	return j
}

// do gives a puppet one command, and returns its answer.
func (j *job) do(format string, args ...any) string {
	j.t.Helper()
	_, err := fmt.Fprintf(j.in, format+"\n", args...)
	require.NoError(j.t, err)
	return j.line()
}

// line is the next line of output.
func (j *job) line() string {
	j.t.Helper()
	if !j.out.Scan() {
		<-j.done
		require.FailNow(j.t, "the program has ended", "status %d, %v", j.status, j.err)
	}
	return j.out.Text()
}

// wait ends the input and waits for the end.
func (j *job) wait() (status int, output string, err error) {
	j.t.Helper()
	_ = j.in.Close()
	var rest strings.Builder
	for j.out.Scan() {
		fmt.Fprintln(&rest, j.out.Text())
	}
	<-j.done
	return j.status, rest.String(), j.err
}

// alive reports whether a process is there and no zombie.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

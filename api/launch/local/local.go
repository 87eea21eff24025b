package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/efactor/efactor/api/internal/errtext"
	"github.com/efactor/efactor/api/launch"
)

// grace is the time for the other ranks to end by themselves when one has failed.
const grace = 5 * time.Second

// Main calls run as one of the ranks that a launcher has started, or has n local processes
// do so; flags must be parsed before, as they are the same for all. It does not return: the
// program ends with status 0, with 1 if run failed, or that of the first rank that failed.
//
// SIGINT and SIGTERM end run's context, in all ranks, and a second one the program; then
// the status is 128 and the signal's number.
func Main(n int, run func(ctx context.Context) error) {
	ctx := untilSignal()
	_, launched, err := launch.Found()
	if launched || n <= 1 || err != nil { // launch.Init will say so, to the launcher as well
		err = run(ctx)
	} else {
		err = Start(ctx, n, os.Args[1:], os.Stdout, os.Stderr)
	}
	status, silent := statusOf(ctx, err)
	if !silent {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
	}
	os.Exit(status)
}

// Run is Main for those who want the group of all ranks: it calls f with it, and closes it.
func Run(n int, f func(ctx context.Context, g *launch.Group) error) {
	Main(n, func(ctx context.Context) error {
		g, err := launch.Init(ctx)
		if err != nil {
			return err
		}
		err = f(ctx, g)
		if bad := g.Close(); err == nil {
			err = bad
		}
		return err
	})
}

// statusOf is how the program ends, and whether there is nothing to say.
func statusOf(ctx context.Context, err error) (status int, silent bool) {
	var exit *exec.ExitError
	var by signaled
	switch {
	case err == nil:
		return 0, true
	case errors.As(context.Cause(ctx), &by):
		// Failures from now on are consequences of others' end.
		return by.status(), startedByUs() || errors.Is(err, context.Canceled) || errors.As(err, &by)
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode(), true // the rank has said why
	}
	return 1, false
}

// Start runs n processes of this program with args, as ranks 0 to n-1, and waits for them.
// Rank 0 writes to out and log as it is, the others with their rank before each line. When
// one fails the others are ended; the error is that of the first.
func Start(ctx context.Context, n int, args []string, out, log io.Writer) (err error) {
	defer errtext.Wrap("local", "start", &err)
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // rank 0 inherits it, so that no other process gets the port
	if err != nil {
		return err
	}
	meet, err := l.(*net.TCPListener).File()
	if err != nil {
		_ = l.Close()
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out, log = &shared{w: out}, &shared{w: log}
	addr, job := l.Addr().String(), rand.Text()
	ended := make(chan error, n)
	for rank := range n {
		cmd := exec.CommandContext(ctx, exe, args...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = grace
		cmd.Env = append(os.Environ(),
			fmt.Sprintf("EFACTOR_RANK=%d", rank), fmt.Sprintf("EFACTOR_SIZE=%d", n),
			fmt.Sprintf("EFACTOR_LOCAL_RANK=%d", rank), fmt.Sprintf("EFACTOR_LOCAL_SIZE=%d", n),
			"EFACTOR_LAUNCHER=env", "EFACTOR_RENDEZVOUS="+addr, "EFACTOR_JOB="+job,
			fmt.Sprintf("%s=%d", envParent, os.Getpid()))
		started := func() {}
		if rank == 0 {
			cmd.ExtraFiles = []*os.File{meet}
			cmd.Env = append(cmd.Env, "EFACTOR_RENDEZVOUS_FD=3")
			started = func() { // a port that only we hold would take calls and not answer
				_ = meet.Close()
				_ = l.Close()
			}
		}
		cmd.SysProcAttr = dieWithParent()
		go func() {
			err := runOne(cmd, prefixed(rank, out), prefixed(rank, log), started)
			if err != nil {
				err = fmt.Errorf("rank %d: %w", rank, err)
				cancel(err)
			}
			ended <- err
		}()
	}
	for range n {
		<-ended
	}
	return context.Cause(ctx)
}

// runOne runs a rank to the end of its output.
func runOne(cmd *exec.Cmd, stdout, stderr *lines, started func()) error {
	runtime.LockOSThread() // the parent of dieWithParent is a thread
	defer runtime.UnlockOSThread()
	var pumps [2]*pump
	for i, to := range []*lines{stdout, stderr} {
		p, err := newPump(to)
		if err != nil {
			started()
			return errors.Join(err, pumps[0].end())
		}
		pumps[i] = p
	}
	cmd.Stdout, cmd.Stderr = pumps[0].w, pumps[1].w
	err := cmd.Start()
	started()
	_, _ = pumps[0].w.Close(), pumps[1].w.Close() // the process has its own
	if err == nil {
		err = cmd.Wait()
	}
	for _, p := range pumps {
		if e := p.end(); err == nil {
			err = e
		}
	}
	return err
}

// envParent is the id of the process that has started this one and passes signals on.
const envParent = "EFACTOR_LOCAL_PARENT"

// signaled is the cause of a context that a signal ended.
type signaled struct{ os.Signal }

// Error implements error.
func (s signaled) Error() string { return s.String() }

// status is the program's then, as shells have it.
func (s signaled) status() int {
	if n, ok := s.Signal.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 1
}

// startedByUs reports whether this process is one that Start has started.
func startedByUs() bool { return os.Getenv(envParent) == strconv.Itoa(os.Getppid()) }

// untilSignal is a context that the first SIGINT or SIGTERM ends; the next one ends the
// program the hard way. A terminal's Ctrl-C goes to all its processes: those that we have
// started leave it to us to forward it, by SIGTERM, so that they do not get two signals.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	came := make(chan os.Signal, 1)
	signal.Notify(came, syscall.SIGTERM)
	if startedByUs() {
		signal.Ignore(os.Interrupt)
	} else {
		signal.Notify(came, os.Interrupt)
	}
	go func() {
		s := <-came
		signal.Stop(came)
		cancel(signaled{s})
	}()
	return ctx
}

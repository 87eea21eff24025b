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
	"syscall"
	"time"

	"github.com/efactor/efactor/api/launch"
)

// grace is what the other ranks get to end by themselves when one has failed.
const grace = 2 * time.Second

// Main calls run as one of the ranks that a launcher has started, or has n local processes
// do so; flags must be parsed before, as they are the same for all. It does not return: the
// program ends with status 0, with 1 if run failed, or that of the first rank that failed.
func Main(n int, run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // another signal ends it the hard way
	_, launched, err := launch.Found()
	switch {
	case err != nil:
	case launched || n <= 1:
		err = run(ctx)
	default:
		err = Start(ctx, n, os.Args[1:], os.Stdout, os.Stderr)
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		os.Exit(exit.ExitCode()) // the rank has said why
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
	os.Exit(1)
}

// Start runs n processes of this program with args, as ranks 0 to n-1, and waits for them.
// Rank 0 writes to out and log as it is, the others with their rank before each line. When
// one fails the others are ended; the error is that of the first.
func Start(ctx context.Context, n int, args []string, out, log io.Writer) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // rank 0 inherits it, so that nobody else gets the port
	if err != nil {
		return err
	}
	defer l.Close()
	meet, err := l.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	defer meet.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out, log = &shared{w: out}, &shared{w: log}
	job := rand.Text()
	ended := make(chan error, n)
	for rank := range n {
		cmd := exec.CommandContext(ctx, exe, args...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = grace
		stdout, stderr := prefixed(rank, out), prefixed(rank, log)
		cmd.Stdout, cmd.Stderr = stdout, stderr
		cmd.Env = append(os.Environ(),
			fmt.Sprintf("EFACTOR_RANK=%d", rank), fmt.Sprintf("EFACTOR_SIZE=%d", n),
			fmt.Sprintf("EFACTOR_LOCAL_RANK=%d", rank), fmt.Sprintf("EFACTOR_LOCAL_SIZE=%d", n),
			"EFACTOR_LAUNCHER=env", "EFACTOR_RENDEZVOUS="+l.Addr().String(), "EFACTOR_JOB="+job)
		if rank == 0 {
			cmd.ExtraFiles = []*os.File{meet}
			cmd.Env = append(cmd.Env, "EFACTOR_RENDEZVOUS_FD=3")
		}
		cmd.SysProcAttr = dieWithParent()
		go func() {
			runtime.LockOSThread() // the parent of dieWithParent is a thread
			defer runtime.UnlockOSThread()
			err := cmd.Run()
			if err != nil {
				err = fmt.Errorf("rank %d: %w", rank, err)
				cancel(err)
			}
			stdout.flush()
			stderr.flush()
			ended <- err
		}()
	}
	for range n {
		<-ended
	}
	return context.Cause(ctx)
}

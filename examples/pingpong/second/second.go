// Package second runs a second process of the same program, which lives no longer
// than the first: it ends when its standard input does, and that is held open by
// the first process until its end.
package second

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// variable marks the second process in its environment.
const variable = "EFACTOR_SECOND_PROCESS"

// Is reports whether this is the second process.
func Is() bool { return os.Getenv(variable) != "" }

// Process is the second process, as seen from the first.
type Process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	said  tail
	grace time.Duration // what it gets to end by itself
	done  chan struct{}
	err   error // of the process, once done is closed
}

// Start runs this program with args.
func Start(args []string) (*Process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("second process: %w", err)
	}
	p := &Process{cmd: exec.Command(exe, args...), grace: 3 * time.Second, done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), variable+"=1")
	p.cmd.Stderr = &p.said
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("second process: %w", err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("second process: %w", err)
	}
	go func() {
		defer close(p.done)
		if err := p.cmd.Wait(); err != nil {
			p.err = fmt.Errorf("second process: %w%s", err, p.said.last())
		}
	}()
	return p, nil
}

// Bind returns a context that ends with ctx, and when the process fails; the
// cause is then its error.
func (p *Process) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-p.done:
			if p.err != nil {
				cancel(p.err)
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// Wait waits until the process has ended, and returns the reason if it failed. When
// ctx ends, it stops the process, and kills it if it does not end.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
	}
	_ = p.stdin.Close()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.grace)
	defer cancel()
	select {
	case <-p.done:
	case <-limit.Done():
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	return p.err
}

// errFirst is why the second process's work ends before its time.
var errFirst = errors.New("the first process has ended")

// Bound is for the second process: a context that ends with ctx and with the
// first process.
func Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin) // any end counts
		cancel(errFirst)
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// tail keeps the end of the bytes written to it.
type tail struct{ b []byte }

const tailLen = 4096

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if n := len(t.b) - tailLen; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
	}
	return len(p), nil
}

// last is the last line, after a colon, if there is one.
func (t *tail) last() string {
	b := bytes.TrimSpace(t.b)
	if len(b) == 0 {
		return ""
	}
	return ": " + string(b[bytes.LastIndexByte(b, '\n')+1:])
}

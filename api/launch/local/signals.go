package local

import (
	"context"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

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

package efa

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

// acceptor takes the connections of a listener. A listener outlives what goes wrong with one
// connection, and a moment in which the process or the system has no descriptor or no memory for
// one: that ends nothing, as in net/http.
type acceptor struct {
	l     net.Listener
	log   *slog.Logger
	pause time.Duration // after the latest error
}

// The pause after an error, which doubles with each that follows.
const (
	firstPause = 5 * time.Millisecond
	maxPause   = time.Second
)

// accept waits for a connection. The error is nil at the end of ctx and of the listener, when
// there is none.
func (a *acceptor) accept(ctx context.Context) (net.Conn, error) {
	for {
		c, err := a.l.Accept()
		switch {
		case err == nil:
			a.pause = 0
			return c, nil
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return nil, nil
		case !passes(err):
			return nil, err
		}
		a.pause = min(max(2*a.pause, firstPause), maxPause)
		a.log.Warn("efa: serve address: a connection could not be accepted", "why", err, "again after", a.pause)
		t := clock.NewTimer(a.pause)
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
	}
}

// final are the system's errors by which no later connection can be accepted either.
var final = []error{syscall.EBADF, syscall.EINVAL, syscall.ENOTSOCK, syscall.EFAULT, syscall.EOPNOTSUPP}

// passes reports whether a later connection may be accepted after an error: all of the system's but
// those about the listener itself, since accept also gives those of the connection (accept(2)), and
// what a listener of another kind calls temporary or a timeout.
func passes(err error) bool {
	if t, ok := errors.AsType[interface {
		error
		Temporary() bool
		Timeout() bool
	}](err); ok && (t.Temporary() || t.Timeout()) {
		return true
	}
	for _, e := range final {
		if errors.Is(err, e) {
			return false
		}
	}
	return errors.As(err, new(syscall.Errno))
}

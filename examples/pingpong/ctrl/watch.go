package ctrl

import (
	"context"
	"errors"
	"os"
	"time"
)

// ErrEarly is the cause of [Watch.Silent]'s end when the partner speaks.
var ErrEarly = errors.New("the partner has finished already")

// Watch looks after the control connection while messages are on the fabric.
type Watch struct {
	// Alive ends when the partner closes the connection; the cause is ErrGone.
	Alive context.Context
	// Silent ends also, with ErrEarly, when the partner speaks: it has all its
	// messages, so that none will come any more.
	Silent context.Context

	conn  *Conn
	done  chan struct{}
	alive context.CancelCauseFunc
}

// Watch begins to listen. Nothing else may use c until Stop.
func (c *Conn) Watch(ctx context.Context) *Watch {
	w := &Watch{conn: c, done: make(chan struct{})}
	w.Alive, w.alive = context.WithCancelCause(ctx)
	var silent context.CancelCauseFunc
	w.Silent, silent = context.WithCancelCause(w.Alive)
	go func() {
		defer close(w.done)
		_, err := c.r.Peek(1) // what comes stays for the next exchange
		switch {
		case err == nil:
			silent(ErrEarly)
		case errors.Is(err, os.ErrDeadlineExceeded): // by Stop
		default:
			w.alive(ErrGone)
		}
	}()
	return w
}

// End ends the watch's contexts with a cause. Any goroutine.
func (w *Watch) End(cause error) { w.alive(cause) }

// Stop ends the watch, and its contexts.
func (w *Watch) Stop() {
	_ = w.conn.conn.SetReadDeadline(longAgo)
	<-w.done
	_ = w.conn.conn.SetReadDeadline(time.Time{})
	w.alive(context.Canceled)
}

package efatest

import (
	"context"
	"errors"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

var errNoProgram = errors.New("efatest: only a program can wait")

// Sleep lets simulated time pass for the program that calls.
func (w *World) Sleep(d time.Duration) error {
	p := w.cur
	if p == nil {
		return errNoProgram
	}
	p.until, p.sleeps = w.now().Add(d), true
	defer func() { p.sleeps = false }()
	return p.pause()
}

// Yield lets others run first, if the seed wants it so.
func (w *World) Yield() error {
	if w.cur == nil {
		return errNoProgram
	}
	return w.cur.pause()
}

// alarm ends a context at a simulated time.
type alarm struct {
	at     clock.Time
	cancel context.CancelCauseFunc
}

// WithTimeout is context.WithTimeout in simulated time. The cause of the end is
// context.DeadlineExceeded; Err says context.Canceled, since the deadline is not
// the context's own.
func (w *World) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	a := &alarm{w.now().Add(d), cancel}
	w.alarms = append(w.alarms, a)
	return ctx, func() {
		w.disarm(a)
		cancel(context.Canceled)
	}
}

func (w *World) disarm(a *alarm) {
	for i, o := range w.alarms {
		if o == a {
			w.alarms = append(w.alarms[:i:i], w.alarms[i+1:]...)
			return
		}
	}
}

// ring ends the contexts whose time has come.
func (w *World) ring() {
	now := w.now()
	for i := 0; i < len(w.alarms); {
		a := w.alarms[i]
		if a.at > now {
			i++
			continue
		}
		w.alarms = append(w.alarms[:i:i], w.alarms[i+1:]...)
		a.cancel(context.DeadlineExceeded)
	}
}

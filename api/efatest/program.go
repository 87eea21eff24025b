package efatest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"time"

	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
)

// program is a function that runs as a coroutine: it goes on only when the world
// lets it.
type program struct {
	w     *World
	name  string
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	done  bool
	quit  bool // the world has given up: every wait fails
	err   error

	cancel context.CancelCauseFunc // of its context; nil before it begins

	// The reason for which it waits: a signal, unless its context ends, or a time.
	sig    *shard.Signal
	ctx    context.Context
	until  clock.Time
	sleeps bool
}

// errAbandoned ends programs of a world that has given up.
var errAbandoned = errors.New("efatest: the world has ended")

// Go adds a program. It begins in Run, or at once if that is running, and its
// context ends with the world.
func (w *World) Go(name string, fn func(ctx context.Context) error) {
	p := &program{w: w, name: name}
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		p.yield = yield
		p.err = p.run(fn)
	})
	w.progs = append(w.progs, p)
}

func (p *program) run(fn func(context.Context) error) (err error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(errAbandoned)
	p.cancel = cancel
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return fn(ctx)
}

// ready reports whether the program can go on.
func (p *program) ready() bool {
	switch {
	case p.done:
		return false
	case p.sleeps:
		return p.w.now() >= p.until
	case p.sig != nil:
		return p.sig.IsSet() || p.ctx.Err() != nil
	default:
		return true
	}
}

// deadline is when a sleeping program wakes.
func (p *program) deadline() (clock.Time, bool) { return p.until, p.sleeps && !p.done }

// resume lets the k-th ready program run until it waits.
func (w *World) resume(k int) {
	for _, p := range w.progs {
		if !p.ready() {
			continue
		}
		if k > 0 {
			k--
			continue
		}
		w.enter(p, func() {
			_, more := p.next()
			p.done = !more
		})
		w.stir()
		return
	}
}

// enter makes p the program that runs during f. If f does not return, because
// the program ended its test, no program runs either.
func (w *World) enter(p *program, f func()) {
	was := w.cur
	w.cur = p
	defer func() { w.cur = was }()
	f()
}

func (p *program) pause() error {
	if p.quit || !p.yield(struct{}{}) {
		p.quit = true
		p.cancel(errAbandoned) // for programs that go on after errors
		return errAbandoned
	}
	return nil
}

func (p *program) wait(ctx context.Context, sig *shard.Signal) error {
	for !sig.IsSet() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.sig, p.ctx = sig, ctx
		err := p.pause()
		p.sig, p.ctx = nil, nil
		if err != nil {
			return err
		}
	}
	return nil
}

// abandon unwinds programs that will never go on.
func (w *World) abandon() {
	for _, p := range w.progs {
		if !p.done {
			w.enter(p, p.stop)
			p.done = true
		}
	}
}

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

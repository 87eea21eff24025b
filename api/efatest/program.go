package efatest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
)

// program is a function that runs as a coroutine: it goes on only when the world
// lets it.
type program struct {
	w      *World
	name   string
	next   func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	sig    *shard.Signal // what it waits for
	ctx    context.Context
	until  clock.Time // of a Sleep
	sleeps bool
	done   bool
	quit   bool
	err    error
}

// errAbandoned ends programs of a world that is stuck.
var errAbandoned = errors.New("efatest: the world has ended")

// Go adds a program. It begins in Run, and its context ends with the world.
func (w *World) Go(name string, fn func(ctx context.Context) error) {
	p := &program{w: w, name: name}
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		p.yield = yield
		p.err = p.run(fn)
	})
	w.progs = append(w.progs, p)
}

func (p *program) run(fn func(context.Context) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return fn(context.Background())
}

// ready tells whether the program can go on.
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
		w.cur = p
		_, more := p.next()
		w.cur = nil
		p.done = !more
		w.stir()
		return
	}
}

func (p *program) pause() error {
	if !p.yield(struct{}{}) {
		p.quit = true
		return errAbandoned
	}
	return nil
}

func (p *program) wait(ctx context.Context, sig *shard.Signal) error {
	for !sig.IsSet() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if p.quit {
			return errAbandoned
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

// Sleep lets simulated time pass for the program that calls.
func (w *World) Sleep(d time.Duration) error {
	p := w.cur
	if p == nil {
		return fmt.Errorf("efatest: Sleep outside a program")
	}
	p.until, p.sleeps = w.now().Add(d), true
	defer func() { p.sleeps = false }()
	return p.pause()
}

// Yield lets others run first, if the seed wants it so.
func (w *World) Yield() error {
	if w.cur == nil {
		return fmt.Errorf("efatest: Yield outside a program")
	}
	return w.cur.pause()
}

// abandon unwinds programs that will never go on.
func (w *World) abandon() {
	for _, p := range w.progs {
		if !p.done {
			p.stop()
			p.done = true
		}
	}
}

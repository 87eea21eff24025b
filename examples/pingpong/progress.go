package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Long work says on a terminal what it is doing, in one line that is written over: after a second, and
// then once a second. What is not a terminal gets nothing of it.

const progressEvery = time.Second

// progress is that line.
type progress struct {
	out   io.Writer // nil: no terminal
	doing func(now time.Time) string

	mu    sync.Mutex
	shown bool
}

// start begins to show the line at each tick, until stop, which leaves none behind.
func (p *progress) start(ticks <-chan time.Time) (stop func()) {
	end := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-end:
				return
			case now := <-ticks:
				p.show(p.doing(now))
			}
		}
	})
	return func() {
		close(end)
		running.Wait()
		p.show("")
	}
}

// overwrite goes back to the beginning of the line and clears it.
const overwrite = "\r\033[K"

// show writes the line, or with "" takes it away.
func (p *progress) show(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(text)
}

func (p *progress) write(text string) {
	switch {
	case p.out == nil || text == "" && !p.shown:
		return
	case text != "":
		text = "pingpong: " + text
	}
	p.shown = text != ""
	fmt.Fprint(p.out, overwrite, text)
}

// apart runs f, which may write to the same terminal, without the line.
func (p *progress) apart(f func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write("")
	return f()
}

// terminal is w if somebody can see it there: a terminal that can clear a line. Otherwise it is nil.
func terminal(w io.Writer) io.Writer {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return nil
	}
	st, err := f.Stat()
	null, errNull := os.Stat(os.DevNull)
	if err != nil || errNull != nil || st.Mode()&os.ModeCharDevice == 0 || os.SameFile(st, null) {
		return nil
	}
	return w
}

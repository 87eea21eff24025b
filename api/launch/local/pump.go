package local

import (
	"os"
	"sync/atomic"

	"github.com/efactor/efactor/runtime/clock"
)

// pump carries a process's output from a pipe. It is not package exec's, which after
// the process's end gives up at a fixed time, even if the output is just not being
// read: by a pager, for example.
type pump struct {
	r, w  *os.File
	to    *lines
	ended atomic.Bool // the process
	done  chan error
}

func newPump(to *lines) (*pump, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &pump{r: r, w: w, to: to, done: make(chan error, 1)}
	go func() { p.done <- p.copy() }()
	return p, nil
}

func (p *pump) copy() error {
	buf := make([]byte, 32<<10)
	for {
		if p.ended.Load() {
			_ = p.r.SetReadDeadline(clock.Wall().Add(grace))
		}
		n, err := p.r.Read(buf)
		if n > 0 {
			if _, err := p.to.Write(buf[:n]); err != nil {
				_ = p.r.Close() // the process gets an error at its next write
				return err
			}
		}
		if err != nil { // the end, or another process has the pipe and says nothing
			p.to.flush()
			return p.r.Close()
		}
	}
}

// end waits for the rest, when the process has ended.
func (p *pump) end() error {
	if p == nil {
		return nil
	}
	_ = p.w.Close() // if it has never started
	p.ended.Store(true)
	_ = p.r.SetReadDeadline(clock.Wall().Add(grace)) // of a Read that waits already
	return <-p.done
}

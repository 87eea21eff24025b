package local

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
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

// shared is a writer for several.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// maxLine is how much of an unfinished line is held back.
const maxLine = 64 << 10

// lines passes on whole lines, so that those of several processes do not mix.
type lines struct {
	w      io.Writer
	prefix string
	rest   []byte
}

// prefixed is where a rank writes to.
func prefixed(rank int, w io.Writer) *lines {
	if rank == 0 {
		return &lines{w: w}
	}
	return &lines{w: w, prefix: fmt.Sprintf("[%d] ", rank)}
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 && len(l.rest) > maxLine {
			l.rest = append(l.rest, '\n')
			continue
		}
		if i < 0 {
			return len(p), nil
		}
		line := append([]byte(l.prefix), l.rest[:i+1]...)
		l.rest = l.rest[i+1:]
		if _, err := l.w.Write(line); err != nil {
			return 0, err
		}
	}
}

// flush ends a last line that has no end.
func (l *lines) flush() {
	if len(l.rest) > 0 {
		_, _ = l.Write([]byte{'\n'})
	}
}

package local

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

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

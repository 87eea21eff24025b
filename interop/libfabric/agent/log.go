package agent

import (
	"bytes"
	"sync"
)

// maxLog is how much of a process's output is kept.
const maxLog = 64 << 10

// log keeps the latest output of a process.
type log struct {
	mu   sync.Mutex
	kept []byte
	lost bool
}

// Write implements io.Writer.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, p...)
	if over := len(l.kept) - maxLog; over > 0 {
		l.kept = append(l.kept[:0], l.kept[over:]...)
		l.lost = true
	}
	return len(p), nil
}

// String returns the kept output.
func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.lost {
		return string(l.kept)
	}
	_, whole, _ := bytes.Cut(l.kept, []byte("\n"))
	return "...\n" + string(whole)
}

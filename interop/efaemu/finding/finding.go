// Package finding collects the actions of a program that a strict device or kernel
// would have refused, though they were carried out: the emulator's strict mode
// reports them.
package finding

import (
	"fmt"
	"sync"
)

// Finding is one thing that was found.
type Finding struct {
	Rule  string // short, stable name, such as "wqe-mbz"
	Where string // object: "qp 3", "ioctl 4.0"
	Text  string
}

// String is one line.
func (f Finding) String() string { return fmt.Sprintf("%s: %s: %s", f.Rule, f.Where, f.Text) }

// maxKept bounds a Log; the rest is counted.
const maxKept = 1000

// Log keeps findings. Any goroutine may call its methods; those of a nil Log do
// nothing.
type Log struct {
	mu    sync.Mutex
	kept  []Finding
	total int
}

// Add keeps one.
func (l *Log) Add(rule, where, format string, args ...any) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	if len(l.kept) < maxKept {
		l.kept = append(l.kept, Finding{rule, where, fmt.Sprintf(format, args...)})
	}
}

// Take returns the kept findings and the number of all, and forgets both.
func (l *Log) Take() ([]Finding, int) {
	if l == nil {
		return nil, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	kept, total := l.kept, l.total
	l.kept, l.total = nil, 0
	return kept, total
}

package shard

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/efactor/efactor/runtime/sys"
)

// eventFD is a descriptor that any goroutine may make readable, also while
// another one closes it.
type eventFD struct {
	fd     int // its readable end
	w      int // the other one, perhaps the same
	users  atomic.Int32
	closed atomic.Bool
}

func (e *eventFD) open() error {
	var err error
	if e.fd, e.w, err = sys.OpenEvent(); err != nil {
		return fmt.Errorf("shard: eventfd: %w", err)
	}
	return nil
}

// signal makes the descriptor readable. It reports false if it is closed.
func (e *eventFD) signal() bool {
	e.users.Add(1)
	defer e.users.Add(-1)
	if e.closed.Load() {
		return false
	}
	sys.SignalEvent(e.w)
	return true
}

// drain makes the descriptor unreadable again.
func (e *eventFD) drain() { sys.DrainEvent(e.fd) }

// seal makes further calls of signal fail and waits for those under way, so that
// none of them writes to a descriptor that has been opened anew.
func (e *eventFD) seal() {
	e.closed.Store(true)
	for e.users.Load() != 0 {
		runtime.Gosched()
	}
	if e.w != e.fd {
		_ = sys.CloseEvent(e.w)
	}
}

func (e *eventFD) close() {
	e.seal()
	_ = sys.CloseEvent(e.fd)
}

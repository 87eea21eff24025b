package tcp

import (
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// bell is how goroutines that work for lanes tell the shard that there is news: an eventfd,
// and a list.
type bell struct {
	fd int

	mu    sync.Mutex
	lanes []*lane
	over  bool
}

func newBell() (*bell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("tcp: eventfd: %w", err)
	}
	return &bell{fd: fd}, nil
}

// ring says that there is news for a lane, which may be closed by then. Any goroutine may
// call it.
func (b *bell) ring(l *lane) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return
	}
	if b.lanes = append(b.lanes, l); len(b.lanes) == 1 {
		one := [8]byte{1} // in any byte order: not zero, far from the limit
		_, _ = unix.Write(b.fd, one[:])
	}
}

// heard takes the lanes for which it rang.
func (b *bell) heard() []*lane {
	b.mu.Lock()
	defer b.mu.Unlock()
	drainCounter(b.fd)
	list := b.lanes
	b.lanes = nil
	return list
}

func (b *bell) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	b.lanes = nil
	_ = unix.Close(b.fd)
}

// onBell handles news for lanes: an answer of the usher's, or of a handshake.
func (p *port) onBell() {
	for _, l := range p.bell.heard() {
		switch {
		case l.state == laneClosed:
			continue
		case l.state != laneVetting:
			l.readable, l.writable = true, true
			p.turns.soil(l)
		case l.asked != nil && l.asked.answered.Load():
			p.door.onVetted(l)
		}
		p.turns.awaken(l)
	}
}

// question is about the other side of a lane.
type question struct {
	l        *lane
	pair     sockPair
	over     atomic.Bool // the lane was closed: nobody wants to know
	answered atomic.Bool
	err      error // the answer; nil: it is our user
}

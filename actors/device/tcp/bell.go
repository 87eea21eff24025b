package tcp

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/runtime/sys"
)

// bell is how goroutines that work for a queue pair tell the shard that there is news: an
// event, and what it is about.
type bell struct {
	r, w int // ends of the event

	any   atomic.Bool // there is news; for a shard that looks often
	mu    sync.Mutex
	news  news
	spare []*lane
	over  bool
}

// news is what has happened since the shard last heard.
type news struct {
	lanes              []*lane // which may be closed by then
	tick, wake, accept bool
}

func newBell() (*bell, error) {
	r, w, err := sys.OpenEvent()
	if err != nil {
		return nil, fmt.Errorf("tcp: event: %w", err)
	}
	return &bell{r: r, w: w}, nil
}

// ring says that there is news for a lane. Any goroutine may call it.
func (b *bell) ring(l *lane) { b.note(func(n *news) { n.lanes = append(n.lanes, l) }) }

// note adds to the news. Any goroutine may call it.
func (b *bell) note(add func(*news)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return
	}
	add(&b.news)
	if !b.any.Load() {
		b.any.Store(true)
		sys.SignalEvent(b.w)
	}
}

// heard takes the news. It is the shard's until it calls heard again.
func (b *bell) heard() news {
	b.mu.Lock()
	defer b.mu.Unlock()
	sys.DrainEvent(b.r)
	n := b.news
	b.any.Store(false)
	clear(b.spare)
	b.news, b.spare = news{lanes: b.spare[:0]}, n.lanes
	return n
}

func (b *bell) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	b.news = news{}
	_ = sys.CloseEvent(b.r)
	if b.w != b.r {
		_ = sys.CloseEvent(b.w)
	}
}

// onBell handles news: those of lanes are an answer of the usher's, or of a stream's.
func (p *port) onBell() {
	n := p.bell.heard()
	p.ticked, p.due = p.ticked || n.tick, p.due || n.wake
	if n.accept {
		p.door.accept()
	}
	for _, l := range n.lanes {
		switch l.state {
		case laneClosed:
		case laneConnecting:
			p.dialer.connected(l)
		case laneVetting:
			l.readable, l.writable = true, true // for later
			if l.asked != nil && l.asked.answered.Load() {
				p.door.onVetted(l)
			}
			p.turns.awaken(l)
		default:
			l.readable, l.writable = true, true
			p.turns.soil(l)
			p.turns.awaken(l)
		}
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

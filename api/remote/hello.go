package remote

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

// greeters are the peers that have said HELLO with a name that is to be looked up. Until it was found to
// lead to the peer, the peer has no other place than one of these: one for each peer, and of all
// that there are the one that has been looked up for longest gives way to another.
type greeters struct {
	r *Remote

	mu    sync.Mutex
	peers map[efa.RawAddr]*greeter
	order []*greeter // oldest first
}

// greeter is one of them.
type greeter struct {
	peer   efa.RawAddr
	cancel context.CancelFunc
	rests  clock.Time // its name leads elsewhere, and is not looked up again before; 0: it is being looked up
}

const (
	maxGreeters = 64
	// lookUp is how long a name has to answer.
	lookUp = 2 * time.Second
)

// hello looks who it is that says HELLO, and answers.
func (g *greeters) hello(m *efa.Message, session uint64, body []byte) {
	r := g.r
	var h hello
	if err := h.parse(body); err != nil {
		r.counts.malformed.Add(1)
		return
	}
	if session == 0 || h.name == r.name || !r.ep.IsSender(*m, h.address) {
		r.counts.malformed.Add(1)
		return
	}
	if at, err := efa.ParseAddress(h.name); err == nil {
		if at.Equal(h.address) {
			r.names.accept(h.name, h.address, session)
		}
		return
	}
	// A process with another name is asked for there, by another goroutine.
	ctx, cancel := context.WithTimeout(r.ctx, min(lookUp, r.cfg.Timeout))
	p := g.begin(m.Raw(), cancel)
	if p == nil {
		cancel()
		return // HELLO comes again
	}
	from := *m
	r.served.Go(func() {
		defer cancel()
		at, err := r.resolve(ctx, h.name)
		if err == nil && !r.ep.IsSender(from, at) {
			err = fmt.Errorf("it leads to %s", at)
		}
		g.end(p, err != nil)
		if err != nil {
			r.warn("remote: a process is not where its name leads", slog.String("name", h.name),
				slog.String("address", h.address.String()), slog.Any("err", err))
			return
		}
		r.names.accept(h.name, h.address, session)
	})
}

// rates says how often something is done for a peer, so that frames that cost more to answer than to send are answered
// at a rate: each peer has a few in a row.
type rates struct {
	mu  sync.Mutex
	due map[efa.RawAddr]clock.Time // until when what was done is paid for
}

const (
	inARow       = 16
	answersEvery = 10 * time.Millisecond
	linesEvery   = 250 * time.Millisecond
	maxRates     = 1 << 12
)

// may reports whether something is to be done for a peer now.
func (x *rates) may(peer efa.RawAddr, every time.Duration, now clock.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	due := max(x.due[peer], now).Add(every)
	if due > now.Add(inARow*every) {
		return false
	}
	if x.due == nil || len(x.due) >= maxRates {
		x.due = map[efa.RawAddr]clock.Time{} // all have a few again
	}
	x.due[peer] = due
	return true
}

// begin gives a peer a place, or nil if it has one.
func (g *greeters) begin(peer efa.RawAddr, cancel context.CancelFunc) *greeter {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.peers[peer]; p != nil {
		if p.rests == 0 || g.r.now() < p.rests {
			return nil
		}
		g.remove(p)
	}
	if len(g.order) >= maxGreeters {
		g.order[0].cancel()
		g.remove(g.order[0])
	}
	p := &greeter{peer: peer, cancel: cancel}
	if g.peers == nil {
		g.peers = map[efa.RawAddr]*greeter{}
	}
	g.peers[peer], g.order = p, append(g.order, p)
	return p
}

// end gives a place back, or, of a peer whose name leads elsewhere, lets it rest until its HELLO after the next.
func (g *greeters) end(p *greeter, rests bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.peers[p.peer] != p {
		return
	}
	if rests {
		p.rests = g.r.now().Add(askAgain)
		return
	}
	g.remove(p)
}

func (g *greeters) remove(p *greeter) {
	delete(g.peers, p.peer)
	g.order = slices.DeleteFunc(g.order, func(q *greeter) bool { return q == p })
}

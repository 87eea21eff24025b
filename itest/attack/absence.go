package main

import (
	"context"
	"sync"
	"syscall"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

// absence is a pause of a mortal until all steady peers have failed it, and its return: they
// take it back, and each answers it.
type absence struct {
	c    *conductor
	i    int
	done chan struct{} // closed: it is over
}

// over reports whether there is none at the moment.
func (a *absence) over() bool {
	select {
	case <-a.done:
		return true
	default:
		return a.done == nil
	}
}

// of reports whether peer i is away.
func (a *absence) of(i int) bool { return !a.over() && a.i == i }

func (a *absence) begin(i int) {
	a.i, a.done = i, make(chan struct{})
	go func() {
		defer close(a.done)
		if err := a.c.leave(a.c.peers[i]); err != nil {
			a.c.blame("%v", err)
		}
	}()
}

func (a *absence) wait() {
	if a.done != nil {
		<-a.done
	}
}

// leave is the absence of p.
func (c *conductor) leave(p *proc) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*c.mortal())
	defer cancel()
	steady := c.peers[:steadyPeers]
	for _, q := range steady {
		q.forget(p.Index)
	}
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	_ = pause(ctx, c.PeerTimeout)
	for _, q := range steady {
		for !q.hasFailed(p.Index) && pause(ctx, 10*time.Millisecond) == nil {
		}
	}
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	for _, q := range steady {
		if !q.hasFailed(p.Index) {
			return q.hung("error with a peer that is stopped", 2*c.mortal())
		}
	}
	_, err := p.await("return", 2*c.mortal(), func(n *news) bool { return n.Back })
	if err != nil {
		for _, q := range steady {
			_ = q.hung("answer", 2*c.mortal())
		}
	}
	return err
}

// comeback is how far a process has come that was stopped for long.
type comeback struct {
	mu    sync.Mutex
	since clock.Time // 0: it was not
	by    [steadyPeers]bool
}

func (b *comeback) begin(now clock.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.since, b.by = now, [steadyPeers]bool{}
}

// answered notes that a steady peer has answered what was sent at the time begun, and reports
// whether now all have.
func (b *comeback) answered(index int, begun clock.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since == 0 || begun < b.since {
		return false
	}
	if b.by[index] = true; b.by != [steadyPeers]bool{true, true, true} {
		return false
	}
	b.since = 0
	return true
}

// returns is how many peers that had failed were taken back.
func (p *peer) returns() uint64 {
	stats, err := p.ep.Stats(p.ctx)
	if err != nil {
		p.w.wrong("%s %d: stats: %v", p.Is, p.Index, err)
	}
	return stats["PeersReturned"]
}

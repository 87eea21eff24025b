package coll

import (
	"context"
	"slices"
	"sync"

	"github.com/efactor/efactor/api/efa"
)

// revocationListener is a group's receive for revocations, and its listener.
type revocationListener struct {
	mu      sync.Mutex
	op      *efa.Op
	stopped bool
	deaf    signal // given when the listener has ended
	from    int    // the sender of the revocation, once deaf
	buf     [revocationMost]byte
}

// listen posts the receive.
func (g *group) listen() error {
	e := &g.revocations
	e.from = -1
	if err := e.post(g); err != nil {
		return err
	}
	if err := g.newSignal(&e.deaf); err != nil {
		e.op.Cancel()
		return err
	}
	g.spawn(func() {
		e.listen(g)
		e.deaf.set()
	})
	return nil
}

// post posts the receive, unless it is over with listening.
func (e *revocationListener) post(g *group) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	op, err := g.ep.Start(&efa.RecvReq{
		Tagged: true, Tag: revokeTag(g.id), Ignore: tagIgnore,
		Buf: e.buf[:],
	})
	if err != nil {
		return err
	}
	if e.op = op; e.stopped {
		op.Cancel()
	}
	return nil
}

func (e *revocationListener) listen(g *group) {
	for {
		op := e.op
		if !g.simulated() {
			<-op.Done()
		}
		c, err := op.Wait(context.Background())
		if err == nil {
			if told, ok := g.decode(e.buf[:c.N]); ok {
				e.from = slices.Index(g.peers, c.From)
				_ = g.fail(told)
				return
			}
			// Of an earlier group with the same id.
			if err = e.post(g); err != nil { // deaf, it could wait for ever
				_ = g.fail(&RankError{g.rank, err})
			}
		}
		if err != nil {
			return
		}
	}
}

// heardOf is the revocation that was received, whether or not the listener has run
// since.
func (e *revocationListener) heardOf(g *group) *RankError {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.op.Done():
		if c, err := e.op.Wait(context.Background()); err == nil {
			if told, ok := g.decode(e.buf[:c.N]); ok {
				return told
			}
		}
	default:
	}
	return nil
}

// cancel ends listening soon.
func (e *revocationListener) cancel() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	e.op.Cancel()
}

// stop ends listening, and returns when it has ended.
func (e *revocationListener) stop() {
	e.cancel()
	_ = e.deaf.wait(context.Background())
}

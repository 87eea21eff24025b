package endpoint

import (
	"fmt"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/runtime/shard"
)

// Tests see the inside of an endpoint whose shard they own by these methods.

// Counters returns the endpoint's own counters, not a copy.
func (e *Endpoint) Counters() *peer.Counters { return &e.env.Counters }

// Memory returns the endpoint's account of unexpected messages and packets out of order.
func (e *Endpoint) Memory() peer.Memory { return e.env.Mem }

// Room returns how many packet entries are free, and how many there are.
func (e *Endpoint) Room() (free, depth int) { return e.queue.Room(), e.queue.Depth() }

// GiveBackSlots makes the queue repost the receive slots that wait for a batch.
func (e *Endpoint) GiveBackSlots() { e.queue.Arm() }

// Operations describes the machines of the operations in use.
func (e *Endpoint) Operations() []string {
	var out []string
	e.pools.EachTx(func(t *ope.Txe) {
		m := t.Machine()
		out = append(out, fmt.Sprintf("txe %s %s total=%d sent=%d acked=%d window=%d flying=%d",
			m.Proto, m.State, m.Total, m.Sent, m.Acked, m.Window, m.Flying))
	})
	e.pools.EachRx(func(r *ope.Rxe) {
		m := r.Machine()
		out = append(out, fmt.Sprintf("rxe %s %s total=%d got=%d window=%d", m.Proto, m.State, m.Total, m.Got, m.Window))
	})
	return append(out, fmt.Sprintf("posted=%d unexpected=%d held=%d",
		e.table.Recvs(), e.table.Msgs(), e.env.Mem.Charged))
}

// PoisonPeers makes the peers' next look-up of an operation panic.
func (e *Endpoint) PoisonPeers() { e.env.Ops = &poison{e: e, ops: e.env.Ops} }

type poison struct {
	e   *Endpoint
	ops peer.OpTable
}

func (p *poison) Find(uint32) shard.Ref {
	p.e.env.Ops = p.ops
	panic("poisoned table of operations")
}

// Peers returns how many peers the endpoint keeps.
func (e *Endpoint) Peers() int {
	n := len(e.peers.replaced)
	for range e.peers.routes.all() {
		n++
	}
	return n
}

package endpoint

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// sendShort sends a message by the short way (see package ope), and tells its sink if
// it is over. false: it is to go the long way.
func (e *Endpoint) sendShort(r *ope.Request, l *peer.Link) bool {
	switch done, pke := e.pools.SendShort(r, l); done {
	case ope.ShortOver:
		e.tellShort(r, e.pools.Sent(r))
		return true
	case ope.ShortKept:
		e.pools.Keep(r, l, pke)
		return true
	default:
		return false
	}
}

// Take implements device.Router: an eager message that a posted receive waits for, and
// whose turn it is, is received at once.
func (e *Endpoint) Take(r *device.RecvPkt) bool {
	if e.state != open || !e.cfg.Shard.Quiet() {
		return false
	}
	l := e.routes.find(r.AH, r.QPN)
	if l == nil {
		return false
	}
	var h wire.EagerRTM
	sh := e.cfg.Shard
	before := sh.Blame(l.Peer) // it is the peer's packet
	payload, ok := l.ReadShort(&h, r.Data)
	sh.Blame(before)
	if !ok {
		return false
	}
	m := e.table.Arrive(match.KindOf(h.Tagged), h.Tag, match.Source(l.Handle))
	if m == nil {
		return false
	}
	l.TookShort(&h)
	q, res := e.pools.ReceiveShort(e.pools.Orders.At(m.Owner), l, &h, payload)
	r.Release()
	e.tellShort(q, res)
	return true
}

// tellShort gives an outcome.
func (e *Endpoint) tellShort(r *ope.Request, res *ope.Result) {
	before := e.cfg.Shard.Blame(e.guard)
	r.Sink.Done(r, res)
	e.cfg.Shard.Blame(before)
	e.pools.EndShort(false)
}

// guard is the actor that answers for a sink that no operation calls.
//
//   - It owns nothing.
//   - Nobody sends it anything but its supervisor.
//   - It sends nothing.
//   - It waits for nothing.
//   - It is restarted when a sink has panicked, which ends that outcome and nothing
//     else.
type guard struct{ e *Endpoint }

// Receive is the guard's message switch.
func (g guard) Receive(ctx actor.Context) {
	if _, ok := ctx.Message().(*actor.Restarting); !ok {
		return
	}
	e := g.e
	if e.handling { // the request that the sink was of
		e.handled()
	}
	e.pools.EndShort(true)
}

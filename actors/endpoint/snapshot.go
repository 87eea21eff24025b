package endpoint

import (
	"cmp"
	"slices"

	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/snapshot"
)

// Snapshot describes the endpoint, with the most oldest operations. Runs on the
// shard, for as long as it takes to write down everything that is in progress.
func (e *Endpoint) Snapshot(most int) *snapshot.Endpoint {
	now := e.cfg.Shard.Now()
	s := &snapshot.Endpoint{
		Name: e.cfg.Device.Info().Name, ConnID: e.addr.ConnID(), State: e.state.String(),
		Progress: e.cfg.Shard.Mode().String() + ": " + e.cfg.Shard.ModeReason(),
		Queues: snapshot.Queues{
			SendDepth: e.queue.Depth(), SendUsed: e.queue.Depth() - e.queue.Room(), RecvThrottled: e.queue.Throttled(),
			PostedReceives: e.table.Recvs(), Unexpected: e.table.Msgs(),
			HeldBytes: e.env.Mem.Held, HeldLimit: e.cfg.Peer.TotalMemory,
		},
		Counters: map[string]uint64{},
	}
	e.EachStat(func(name string, n uint64) { s.Counters[name] = n })
	for _, byQPN := range e.routes.byAH {
		for _, x := range byQPN {
			if x.cur != nil {
				s.Peers = append(s.Peers, x.cur.Snapshot())
			}
		}
	}
	e.pools.EachTx(func(t *ope.Txe) { s.Operations = append(s.Operations, t.Snapshot()) })
	e.pools.EachRx(func(r *ope.Rxe) { s.Operations = append(s.Operations, r.Snapshot()) })
	e.table.EachRecv(func(r *match.Recv) bool {
		s.Operations = append(s.Operations, e.pools.Orders.At(r.Owner).Snapshot(now))
		return true
	})
	slices.SortStableFunc(s.Operations, func(a, b snapshot.Operation) int { return cmp.Compare(b.Age, a.Age) })
	if len(s.Operations) > most {
		s.Omitted = len(s.Operations) - most
		s.Operations = slices.Clone(s.Operations[:most])
	}
	slices.SortFunc(s.Peers, func(a, b snapshot.Peer) int {
		if a.Operations != b.Operations {
			return b.Operations - a.Operations
		}
		return cmp.Compare(a.Address, b.Address)
	})
	return s
}

var stateNames = [...]string{open: "open", failing: "closing", flushing: "closing", stopped: "closed"}

func (s state) String() string { return stateNames[s] }

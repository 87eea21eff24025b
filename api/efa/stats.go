package efa

import (
	"context"

	"github.com/efactor/efactor/runtime/shard"
)

// Stats returns the endpoint's counters by name: packets by type
// ("PacketsSent.CTS"), what was dropped and why ("BadShort"), RNR and back-off,
// the device queue ("Queue.RNR"), the steps of the protocol machines
// ("tx.TXE_REQ posted"), memory for unexpected messages. Names may change between
// releases. It asks the endpoint's shard, so it is not for the hot path.
func (e *Endpoint) Stats(ctx context.Context) (_ map[string]uint64, err error) {
	defer formed("stats", &err)
	if err := e.live(); err != nil {
		return nil, err
	}
	stats := make(map[string]uint64)
	var sig shard.Signal
	e.control(func() {
		e.act.Load().EachStat(func(name string, n uint64) { stats[name] = n })
		sig.Set()
	})
	if err := e.sh.Wait(ctx, &sig); err != nil {
		return nil, contextError(ctx, err)
	}
	return stats, nil
}

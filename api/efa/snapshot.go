package efa

import (
	"context"

	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
)

// Snapshot is what an endpoint is doing at one moment: peers, operations in progress
// and what each waits for, queues, counters. It can be marshaled as JSON.
type Snapshot = endpoint.Snapshot

// maxSnapshot is how many operations a Snapshot lists.
const maxSnapshot = 1000

// Snapshot says what the endpoint is doing right now; of its operations it lists the
// 1,000 oldest. It asks the endpoint's shard, which answers also while all operations
// are stuck, and takes about a microsecond for each peer and operation of its time.
func (e *Endpoint) Snapshot(ctx context.Context) (_ *Snapshot, err error) {
	defer formed("snapshot", &err)
	if err := e.live(); err != nil {
		return nil, err
	}
	var s *Snapshot
	var sig shard.Signal
	e.control(func() {
		s = e.act.Load().ReadSnapshot(maxSnapshot)
		sig.Set()
	})
	if err := e.sh.Wait(ctx, &sig); err != nil {
		return nil, contextError(ctx, err)
	}
	s.Taken, s.Address = clock.Wall(), e.Address().String()
	return s, nil
}

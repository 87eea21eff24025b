package endpoint

import (
	"maps"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
)

// Sample is a copy of an endpoint's counters, and of how full its queues are.
type Sample struct {
	Counters peer.Counters
	Queue    device.QueueCounters
	Mix      ope.Mix
	Tally    ope.Tally
	Depths   Depths
}

// Depths are what is in use of an endpoint at one moment.
type Depths struct {
	Peers       int64 // that have not failed
	SendQueue   int64 // packet entries
	Tx, Rx      int64 // operations in progress
	Posted      int64 // receives that wait for a message
	Unexpected  int64 // messages that wait for a receive
	Held        int64 // bytes that nobody asked for
	Early       int64 // packets that wait for their turn in the order of messages
	Completions int64 // that were not read; the caller's
}

// Sample copies the counters. Runs on the shard, for a few microseconds.
func (e *Endpoint) Sample(to *Sample) {
	to.Counters, to.Queue, to.Mix, to.Tally = e.env.Counters, e.queue.Counters, e.pools.Mix, e.pools.Tally
	to.Tally.Errors = maps.Clone(e.pools.Tally.Errors)
	to.Depths = Depths{
		SendQueue: int64(e.queue.Depth() - e.queue.Room()), Held: e.env.Mem.Held, Early: e.env.Mem.Early,
	}
	if e.table != nil { // it has begun
		to.Depths.Posted, to.Depths.Unexpected = int64(e.table.Recvs()), int64(e.table.Msgs())
	}
	for _, byQPN := range e.routes.byAH {
		for _, x := range byQPN {
			if x.cur != nil && x.cur.Err == nil {
				to.Depths.Peers++
			}
		}
	}
	e.pools.EachTx(func(*ope.Txe) { to.Depths.Tx++ })
	e.pools.EachRx(func(*ope.Rxe) { to.Depths.Rx++ })
}

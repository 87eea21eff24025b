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
	Paths    [device.MaxPaths]PathSample // by device, best first
}

// PathSample is what went over one of the endpoint's devices.
type PathSample struct {
	device.Carried
	Peers int64 // on it, that have not failed
}

// Depths says how much of an endpoint is in use at one moment.
type Depths struct {
	SendQueue   int64 // packet entries
	Tx, Rx      int64 // operations in progress
	Posted      int64 // receives that wait for a message
	Unexpected  int64 // messages that wait for a receive
	Held        int64 // bytes of unexpected messages and packets out of order
	Early       int64 // packets that wait for their turn in the order of messages
	Completions int64 // that the application has not read; set by the caller

	Most Most
}

// Most is how much of each there may be.
type Most struct {
	SendQueue, Held     int64
	Tx, Rx, Completions int64 // set by the caller
}

// ReadSample copies e's counters and depths. Runs on the shard, for a few microseconds.
func (e *Endpoint) ReadSample(to *Sample) {
	to.Counters, to.Queue, to.Mix, to.Tally = e.env.Counters, e.queue.Counters, e.pools.Mix, e.pools.Tally
	to.Tally.Errors = maps.Clone(e.pools.Tally.Errors)
	to.Depths = Depths{
		SendQueue: int64(e.queue.Depth() - e.queue.Room()), Held: e.env.Mem.Held, Early: e.env.Mem.Early,
		Most: Most{SendQueue: int64(e.queue.Depth()), Held: e.env.Config.TotalMemory},
	}
	to.Paths = [device.MaxPaths]PathSample{{Carried: to.Queue.Carried()}}
	for i := range e.ways {
		to.Paths[i].Carried = e.ways[i].Carried
	}
	if e.port != nil {
		posted, others := e.port.Depths()
		to.Depths.Posted, to.Depths.Tx, to.Paths[0].Peers = int64(posted), int64(others), int64(e.port.Remotes())
		return
	}
	if e.table != nil { // it has begun
		to.Depths.Posted, to.Depths.Unexpected = int64(e.table.Recvs()), int64(e.table.Msgs())
	}
	for l := range e.peers.routes.all() {
		if l.Err == nil {
			to.Paths[l.Path].Peers++
		}
	}
	e.pools.EachTx(func(*ope.Txe) { to.Depths.Tx++ })
	e.pools.EachRx(func(*ope.Rxe) { to.Depths.Rx++ })
}

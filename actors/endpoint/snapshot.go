package endpoint

import (
	"cmp"
	"slices"
	"time"

	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/runtime/clock"
)

// Snapshot is one endpoint at one moment: its peers, its operations in progress and what
// each waits for, its queues and counters. It is plain data, made on the endpoint's shard
// and read anywhere; as JSON, durations are nanoseconds.
type Snapshot struct {
	Taken    time.Time `json:"taken"`
	Name     string    `json:"name"`    // of the device's attachment
	Address  string    `json:"address"` // as efa.Address has it
	ConnID   uint32    `json:"connid"`
	State    string    `json:"state"`    // "open", or how far it is with closing
	Progress string    `json:"progress"` // mode of its shard, and why

	Queues     Queues            `json:"queues"`
	Peers      []peer.Snapshot   `json:"peers"`      // those with operations first, then by address
	Operations []ope.Snapshot    `json:"operations"` // oldest first
	Omitted    int               `json:"omitted"`    // operations that are not listed, the youngest
	Counters   map[string]uint64 `json:"counters"`   // as efa.Endpoint.Stats has them
}

// Queues are an endpoint's queues and what is kept in them.
type Queues struct {
	SendDepth      int   `json:"send_depth"` // packets that the device takes
	SendUsed       int   `json:"send_used"`
	RecvThrottled  bool  `json:"recv_throttled"` // memory is used up, senders meet RNR
	PostedReceives int   `json:"posted_receives"`
	Unexpected     int   `json:"unexpected"` // messages that no receive has matched
	HeldBytes      int64 `json:"held_bytes"` // of what nobody asked for
	HeldLimit      int64 `json:"held_limit"`
}

// ReadSnapshot describes e, with its oldest operations, at most so many. Runs on the shard,
// for a time that grows with the peers and operations.
func (e *Endpoint) ReadSnapshot(most int) *Snapshot {
	now := e.cfg.Shard.Now()
	s := &Snapshot{
		Name: e.cfg.Device.Info().Name, ConnID: e.env.Addr.ConnID(), State: e.closing.state.String(),
		Progress: e.cfg.Shard.Mode().String() + ": " + e.cfg.Shard.ModeReason(),
		Queues: Queues{
			SendDepth: e.queue.Depth(), SendUsed: e.queue.Depth() - e.queue.Room(),
			HeldBytes: e.env.Mem.Held, HeldLimit: e.env.Config.TotalMemory,
		},
		Counters: map[string]uint64{},
	}
	e.EachStat(func(name string, n uint64) { s.Counters[name] = n })
	if e.port != nil {
		s.Queues.PostedReceives, _ = e.port.Depths()
		e.port.Each(func(o ope.Snapshot) { s.Operations = append(s.Operations, o) })
	} else {
		s.addProtocol(e, now)
	}
	slices.SortStableFunc(s.Operations, func(a, b ope.Snapshot) int { return cmp.Compare(b.Age, a.Age) })
	if len(s.Operations) > most {
		s.Omitted = len(s.Operations) - most
		s.Operations = slices.Clone(s.Operations[:most])
	}
	slices.SortFunc(s.Peers, func(a, b peer.Snapshot) int {
		if a.Operations != b.Operations {
			return b.Operations - a.Operations
		}
		return cmp.Compare(a.Address, b.Address)
	})
	return s
}

// addProtocol adds e's peers and operations of the protocol.
func (s *Snapshot) addProtocol(e *Endpoint, now clock.Time) {
	s.Queues.RecvThrottled, s.Queues.PostedReceives, s.Queues.Unexpected = e.queue.Throttled(), e.table.Recvs(), e.table.Msgs()
	for l := range e.peers.routes.all() {
		s.Peers = append(s.Peers, l.Snapshot())
	}
	e.pools.EachTx(func(t *ope.Txe) { s.Operations = append(s.Operations, t.Snapshot()) })
	e.pools.EachRx(func(r *ope.Rxe) { s.Operations = append(s.Operations, r.Snapshot()) })
	e.table.EachRecv(func(r *match.Recv) bool {
		s.Operations = append(s.Operations, e.pools.Orders.At(r.Owner).Snapshot(now))
		return true
	})
	for _, o := range e.claims.awaited.list {
		s.Operations = append(s.Operations, o.Snapshot(now))
	}
}

var stateNames = [...]string{open: "open", failing: "closing", flushing: "closing", stopped: "closed"}

func (s state) String() string { return stateNames[s] }

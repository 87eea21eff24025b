package endpoint

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
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
	HeldBytes      int64 `json:"held_bytes"` // of unexpected messages
	HeldLimit      int64 `json:"held_limit"`
}

// ReadSnapshot describes e, with its oldest operations, at most so many. Runs on the shard,
// for a time that grows with the peers and operations.
func (e *Endpoint) ReadSnapshot(most int) *Snapshot {
	now := e.cfg.Shard.Now()
	s := &Snapshot{
		Name: e.cfg.Device.Info().Name, ConnID: e.env.Addr.ConnID(), State: stateNames[e.closing.state],
		Progress: e.cfg.Shard.Mode().String() + ": " + e.cfg.Shard.ModeReason(),
		Queues: Queues{
			SendDepth: e.queue.Depth(), SendUsed: e.queue.Depth() - e.queue.Room(),
			HeldBytes: e.env.Mem.Charged, HeldLimit: e.env.Config.TotalMemory,
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
		s.Operations = append(s.Operations, e.pools.Entries.At(r.Owner).Snapshot(now))
		return true
	})
	for _, o := range e.claims.waits.list {
		s.Operations = append(s.Operations, o.Snapshot(now))
	}
}

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
	device.PathStats
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
		SendQueue: int64(e.queue.Depth() - e.queue.Room()), Held: e.env.Mem.Charged, Early: e.env.Mem.Early,
		Most: Most{SendQueue: int64(e.queue.Depth()), Held: e.env.Config.TotalMemory},
	}
	to.Paths = [device.MaxPaths]PathSample{{PathStats: to.Queue.PathStats()}}
	for i := range e.devicePaths {
		to.Paths[i].PathStats = e.devicePaths[i].Stats
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

// EachStat calls f for every counter of e, always in the same order: those of its peers and
// operations (peer.Counters), of its device queue ("Queue." and device.QueueCounters), of its
// operations' and its peers' machines ("tx.", "rx.", "caller.", "life." and "place.", then "STATE event"), its operations in progress (TxInUse, those whose
// data leaves from here, and RxInUse), the bytes of unexpected messages and of packets
// out of order (MemoryHeld, and MemoryPeak, the most so far), and its domain's registrations of
// plain memory ("Plain." and mr.CacheStats). Runs on the shard.
func (e *Endpoint) EachStat(f func(name string, n uint64)) {
	eachField("", reflect.ValueOf(&e.env.Counters).Elem(), f)
	eachField("Queue.", reflect.ValueOf(&e.queue.Counters).Elem(), f)
	step := func(machine, state, event string, n uint64) { f(machine+"."+state+" "+event, n) }
	e.pools.Steps.Each(step)
	e.env.Steps.Each(step)
	var tx, rx uint64
	e.pools.EachTx(func(*ope.Txe) { tx++ })
	e.pools.EachRx(func(*ope.Rxe) { rx++ })
	f("TxInUse", tx)
	f("RxInUse", rx)
	f("MemoryHeld", uint64(e.env.Mem.Charged))
	f("MemoryPeak", uint64(e.env.Mem.Peak))
	if c := e.cfg.Plain; c != nil {
		s := c.Stats()
		eachField("Plain.", reflect.ValueOf(&s).Elem(), f)
	}
}

// eachField calls f for the numbers in a struct. An array in it is indexed by packet type;
// its zeros are left out.
func eachField(prefix string, v reflect.Value, f func(string, uint64)) {
	for i := range v.NumField() {
		name, x := prefix+v.Type().Field(i).Name, v.Field(i)
		if x.Kind() != reflect.Array {
			f(name, x.Uint())
			continue
		}
		for t := range x.Len() {
			if n := x.Index(t).Uint(); n > 0 {
				f(name+"."+wire.Type(t).String(), n)
			}
		}
	}
}

// Watch hears of the end of a peer, or of the endpoint, as a posted receive from that peer
// would; as with one, the peer is probed when it is silent. No message satisfies it.
type Watch struct {
	Peer  uint64      // the handle; one that names no peer: the endpoint alone is watched
	OnEnd func(error) // is called on the shard, at most once

	link *peer.Link
}

// BeginWatch begins to watch, or says at once why there is nothing to watch any more. It runs
// on the shard.
func (e *Endpoint) BeginWatch(w *Watch) {
	switch {
	case e.closing.state != open:
		w.OnEnd(e.closing.err())
		return
	case w.Peer >= uint64(match.NotAvail):
	case e.port != nil:
		w.OnEnd(fmt.Errorf("%w: peers of an endpoint without the protocol are not watched", errno.ErrNotSupported))
		return
	default:
		l, err := e.peers.link(w.Peer)
		if err == nil {
			err = l.Closed()
		}
		if err != nil {
			w.OnEnd(err)
			return
		}
		w.link = l
		l.Await()
	}
	e.watches.list = append(e.watches.list, w)
}

// EndWatch ends a watch, if that has not ended by itself. It runs on the shard.
func (e *Endpoint) EndWatch(w *Watch) {
	for i, x := range e.watches.list {
		if x == w {
			e.watches.list = append(e.watches.list[:i], e.watches.list[i+1:]...)
			w.over()
			return
		}
	}
}

func (w *Watch) over() {
	if w.link != nil {
		w.link.Awaited()
		w.link = nil
	}
}

// watches are those of an endpoint.
type watches struct{ list []*Watch }

// fail ends those that keep does not want; it is asked about a receive from the peer.
func (s *watches) fail(keep func(*ope.Entry) bool, err error) {
	if len(s.list) == 0 {
		return
	}
	var kept, doomed []*Watch
	for _, w := range s.list {
		o := ope.Entry{Req: ope.Request{Peer: w.Peer}}
		if keep(&o) {
			kept = append(kept, w)
		} else {
			doomed = append(doomed, w)
		}
	}
	s.list = kept
	for _, w := range doomed {
		w.over()
		w.OnEnd(err)
	}
}

package efa

import (
	"slices"
	"sync"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/runtime/shard"
)

// EventKind tells events apart.
type EventKind = endpoint.EventKind

// The kinds of event.
const (
	// PeerFailed: a peer died, fell silent or was replaced; what was in
	// progress with it has failed. One that was only slow may send again, and is
	// received; sends to it fail until it was told what it has missed.
	PeerFailed = endpoint.PeerFailed
	// MemoryPressure: unexpected messages use all the memory they may, so
	// senders are held back until receives are posted. MemoryRelieved ends it.
	MemoryPressure = endpoint.MemoryPressure
	MemoryRelieved = endpoint.MemoryRelieved
	// PeerPressure: the unexpected messages of one peer use all the memory that they
	// may (PeerMemory). That peer alone is held back until receives are posted, and
	// nothing is lost. An EFA card cannot do that: there it goes on until all memory is
	// used. PeerRelieved ends it.
	PeerPressure = endpoint.PeerPressure
	PeerRelieved = endpoint.PeerRelieved
	// BadPacket: a packet was dropped although its sender takes it for arrived, since it
	// cannot be read or may not be taken. Err says why: one of package wire's errors, for
	// which the message that the packet was of has ended alone; or [ErrUntrusted]. After 8 of
	// them there is one a second; Stats has all.
	BadPacket = endpoint.BadPacket
	// StrangersCrowded: of the peers that are in no address vector more than
	// ProtocolConfig.MaxUnlistedPeers have messages here that nobody has received, or operations
	// in progress. What further ones have sent is kept, as part of TotalMemory, and they are
	// held back until there is room. An EFA card cannot do that: there they go on until all
	// memory is used. StrangersRelieved ends it.
	StrangersCrowded  = endpoint.StrangersCrowded
	StrangersRelieved = endpoint.StrangersRelieved
	// DeviceFailed: the endpoint is unusable and every operation has failed. Enable may
	// bring it back.
	DeviceFailed = endpoint.DeviceFailed
	// EnabledAgain: Enable has brought it back. Address is the endpoint's own, a new one.
	EnabledAgain = endpoint.EnabledAgain
	// NewPeer: an endpoint in no address vector sent something; its address
	// can be inserted to send to it; [Endpoint.Reply] does so by itself.
	NewPeer = endpoint.NewPeer
	// AccessRefused: a peer asked for memory here that it may not have: with a
	// key that is none, beyond a region, or against its Access. Err says what.
	// What a device refuses by itself is not known here, but on simulated ones.
	AccessRefused = endpoint.AccessRefused
	// RemoteWritten: a peer has written N bytes with Data to memory here, and
	// the endpoint has no RecvQueue for a [RemoteWrite].
	RemoteWritten = endpoint.RemoteWritten
	// RemoteServed: a peer has read, written or updated N bytes of memory here, and the
	// endpoint has RMAEvents. Access says which: AccessRemoteRead of reads and of atomics that
	// fetch, else AccessRemoteWrite.
	RemoteServed = endpoint.RemoteServed
	// PeerClosed: a peer has closed its endpoint (FI_SHUTDOWN); what was in progress with
	// it, and receives from it alone, have ended with [ErrPeerClosed]. All that it had sent
	// before was received or waits for a receive. On shm and tcp it comes within a second,
	// of peers that have exchanged something; PeerFailed comes before it if a send has met the end
	// earlier. An EFA card does not tell: there a peer that has closed looks like one that died. An endpoint
	// that ends since its device has failed, while its process lives, counts as closed.
	PeerClosed = endpoint.PeerClosed
)

// Event is something that belongs to no operation (fi_eq).
type Event struct {
	Kind    EventKind
	Peer    Addr    // NoAddr if it is in no address vector
	Address Address // of the peer, or, if EnabledAgain, of the endpoint; else zero
	Err     error
	N       int    // of RemoteWritten and RemoteServed
	Data    uint64 // of RemoteWritten
	Access  Access // of RemoteServed
	// Lost is how many events before this one nobody read in time: only the
	// latest EndpointConfig.EventBacklog are kept.
	Lost uint64
}

// events keeps the latest events for readers; the oldest go first when nobody
// reads them.
type events struct {
	mu      sync.Mutex
	max     int
	paths   []fabricPath
	list    []Event
	lost    uint64
	done    bool
	waiting []*shard.Signal
}

func (v *events) init(n int, paths []fabricPath) {
	if n <= 0 {
		n = 256
	}
	v.max, v.paths = n, paths
}

// on runs on the shard.
func (v *events) on(ev endpoint.Event) { v.add(v.event(ev)) }

// event makes a public event of one of the actors'.
func (v *events) event(ev endpoint.Event) Event {
	x := Event{Kind: ev.Kind, Peer: Addr(ev.Handle), Err: ev.Err}
	if x.Peer >= NoAddr {
		x.Peer = NoAddr
	}
	if ev.Addr != (RawAddr{}) {
		x.Address = NewAddress(v.paths[ev.Path].scheme, ev.Addr)
	}
	return x
}

// served runs on the shard when a peer's access was carried out.
func (v *events) served(cfg *EndpointConfig, s *endpoint.Served) {
	read := s.Access == device.RemoteRead
	c := cfg.RemoteWriteCounter
	if read {
		c = cfg.RemoteReadCounter
	} else if s.HasData || !cfg.RMAEvents {
		c = nil // onWritten counts it, or nobody
	}
	if c != nil {
		c.count(nil)
	}
	if !cfg.RMAEvents || s.HasData {
		return
	}
	ev := v.event(endpoint.Event{Kind: RemoteServed, Handle: s.Handle, Addr: *s.From, Path: s.Path})
	if ev.N, ev.Access = s.N, AccessRemoteWrite; read {
		ev.Access = AccessRemoteRead
	}
	v.add(ev)
}

// ofServed is what the endpoint's actor tells of peers' accesses; nil: nobody wants to know.
func (v *events) ofServed(cfg *EndpointConfig) func(*endpoint.Served) {
	if !cfg.RMAEvents && cfg.RemoteReadCounter == nil {
		return nil
	}
	return func(s *endpoint.Served) { v.served(cfg, s) }
}

func (v *events) add(e Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.list) == v.max {
		v.list = slices.Delete(v.list, 0, 1)
		v.lost++
	}
	v.list = append(v.list, e)
	setAll(v.waiting)
}

func (v *events) pop() (Event, bool) {
	if len(v.list) == 0 {
		return Event{}, false
	}
	ev := v.list[0]
	v.list = slices.Delete(v.list, 0, 1)
	ev.Lost, v.lost = v.lost, 0
	return ev, true
}

func (v *events) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.done = true
	setAll(v.waiting)
}

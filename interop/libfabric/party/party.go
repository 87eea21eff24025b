package party

import "context"

// Peer is a party's handle of another endpoint (fi_addr_t).
type Peer int64

// NoPeer is the sender of a message that is in no address vector.
const NoPeer Peer = -1

// Party is one side of a scenario. Its methods may be called from any goroutine;
// their errors are those of the harness or of the call itself; an operation's result
// is in its Outcome.
type Party interface {
	// Name identifies the party in messages.
	Name() string
	// Open makes the endpoint, which New did not; Close ends it. It may be opened
	// again, its regions are still there, peers are not.
	Open(ctx context.Context) error
	Close(ctx context.Context) error
	// Address is the raw address, as it goes into Insert of another party.
	Address() []byte
	Insert(ctx context.Context, address []byte) (Peer, error)
	Remove(ctx context.Context, p Peer) error

	Region(ctx context.Context, size int, a Access) (Region, error)
	// Start begins an operation. The error is that of the call: Errno returns
	// libfabric's number.
	Start(ctx context.Context, op Op) (*Pending, error)
	Cancel(ctx context.Context, p *Pending) error
	// Flood begins many operations with one peer that plays the same.
	Flood(ctx context.Context, f Flood) (*Pending, error)

	// Notices are what came without an operation: writes of peers with data.
	Notices() <-chan Outcome
	Counters(ctx context.Context) (Counters, error)
	// MaxInject is the most bytes that can be injected.
	MaxInject() int
}

// Access is the purpose of a region.
type Access uint8

// The rights, of libfabric.
const (
	AccessSend Access = 1 << iota
	AccessRecv
	AccessRemoteRead
	AccessRemoteWrite

	AccessAll = AccessSend | AccessRecv | AccessRemoteRead | AccessRemoteWrite
)

// Region is registered memory of a party.
type Region interface {
	// Remote names it for peers.
	Remote() Remote
	// Fill writes the pattern; Clear makes it untouched.
	Fill(ctx context.Context, off, n int, seed int) error
	Clear(ctx context.Context) error
	// Check describes the contents.
	Check(ctx context.Context, off, n int) (Content, error)
	Set(ctx context.Context, off int, b []byte) error
	Get(ctx context.Context, off, n int) ([]byte, error)
	Close(ctx context.Context) error
}

// Remote is memory of a party as another one names it.
type Remote struct{ Addr, Len, Key uint64 }

// Slice is the n bytes from off on.
func (r Remote) Slice(off, n int) Remote {
	return Remote{Addr: r.Addr + uint64(off), Len: uint64(n), Key: r.Key}
}

// Counters are a party's, successes and failures.
type Counters struct {
	Send, Recv, Write, Read, RemoteWrite uint64
	Failed                               uint64 // of all of them
}

// Flood is a plan with a peer: N operations planned from Seed while the peer does
// PeerN of PeerSeed.
type Flood struct {
	Number         int // of both sides, distinguishes floods
	Peer           Peer
	Seed, PeerSeed uint64
	N, PeerN       int
	Window         int
	Max, Inject    int    // bytes
	RMA            bool   // with writes and atomics, in At
	At             Remote // FloodRegion bytes of the peer's
}

// FloodRegion returns how much memory the peer's operations of f need.
func FloodRegion(window, most int) int { return window*most + 8 }

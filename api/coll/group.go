package coll

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/api/efa"
)

// family is shared by the groups made from one New.
type family struct {
	cfg    Config
	ep     *efa.Endpoint
	limits efa.Limits
	sure   int // bytes of a message that needs no receive to be over, see sureOf
	ids    contexts
	memory memory
	pacing atomic.Int64 // messages that wait, see pace.go

	mu    sync.Mutex
	alive int // groups that are open
}

func newFamily(cfg Config) *family {
	f := &family{cfg: cfg, ep: cfg.Endpoint}
	f.limits = f.ep.Domain().Limits()
	f.sure = sureOf(f.ep, &f.limits)
	f.memory.dom, f.memory.reads = f.ep.Domain(), f.limits.RDMARead
	f.ids.init()
	return f
}

// how is the way to send n bytes: copied if they are few, and else over when they have
// arrived. Sends that waited for their receive would keep two that exchange from receiving.
func (f *family) how(n int) efa.OpOption {
	if n <= f.limits.MaxInject {
		return efa.Inject
	}
	return efa.Complete(efa.Transmitted)
}

// spawn runs f beside the caller.
func (f *family) spawn(fn func()) {
	if f.cfg.Go != nil {
		f.cfg.Go(fn)
		return
	}
	go fn()
}

// simulated: nothing may wait but by calling package efa.
func (f *family) simulated() bool { return f.cfg.Go != nil }

// group is a Comm without its options.
type group struct {
	*family
	id    uint64     // context id
	nonce uint64     // distinguishes it from earlier groups with its id
	rank  int        // ours
	peers []efa.Addr // by rank

	seq    atomic.Uint64        // collectives called
	ahead  []atomic.Int64       // by rank, see pace.go
	spare  atomic.Pointer[call] // the last of them that is over
	closed atomic.Bool

	// The group's failure, see revoke.go: claimed by the first call that meets it,
	// and once all other ranks were informed, its fate.
	claim, fate atomic.Pointer[RankError]
	gone        chan struct{} // closed at fate: all in progress is to end
	revocations revocationListener

	mu      sync.Mutex
	merged  map[*call]context.CancelFunc // whose contexts are watched
	pending map[*Request]struct{}        // not over
}

func (f *family) newGroup(id uint64, rank int, peers []efa.Addr, nonce uint64) (*group, error) {
	g := &group{
		family: f, id: id, nonce: nonce, rank: rank, peers: peers, ahead: make([]atomic.Int64, len(peers)),
		gone: make(chan struct{}), merged: map[*call]context.CancelFunc{}, pending: map[*Request]struct{}{},
	}
	if err := g.listen(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.alive++
	f.mu.Unlock()
	return g, nil
}

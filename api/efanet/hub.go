package efanet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

// hub is an endpoint and the connections on it. It lives as long as something uses it: a listener,
// a dialer, connections.
type hub struct {
	ep       *efa.Endpoint
	local    net.Addr
	most     int             // bytes of a DATA frame
	ctx      context.Context // ends with the hub
	cancel   context.CancelFunc
	ids      atomic.Uint64
	epochs   atomic.Uint64
	askEvery time.Duration
	maxIdle  int
	to       atomic.Pointer[Listener] // gets connections that others open; nil: they are refused
	over     atomic.Pointer[error]    // why the endpoint answers nobody any more
	served   sync.WaitGroup           // its goroutines
	bin      bin                      // of what is asked that is no question

	naming sync.RWMutex     // of byID; nothing is waited for under it
	byID   map[uint64]*Conn // its connections, by their ids here

	mu    sync.Mutex
	users int
	conns int
	peers map[efa.Addr]*peer
	idle  []*peer // those that nothing is to be done for, the longest first
}

// start posts an operation as soon as there is room for it: many goroutines that read may have taken
// the endpoint's for a moment.
func (h *hub) start(r efa.Request) (*efa.Op, error) {
	for {
		op, err := h.ep.Start(r)
		if !errors.Is(err, efa.ErrAgain) {
			return op, err
		}
		again := clock.NewTimer(startAgain)
		select {
		case <-again.C:
		case <-h.ctx.Done():
			again.Stop()
			return nil, efa.ErrClosed
		}
	}
}

const (
	// startAgain is when an endpoint is asked once more that had no room for an operation.
	startAgain = time.Millisecond
	// maxPeers is how many peers there are at most beside maxIdle.
	maxPeers = maxConns
	// maxConns is how many connections an endpoint has: what nobody has read of all of them, in
	// the smallest frames, is less than the messages that an endpoint keeps (ope.MaxOps), beyond
	// which it gives a peer up. Each may wait for two frames, of which nextMemory and maxOps leave
	// room for as many; maxOps also lets sends wait for a peer that has stopped without holding up
	// those to others.
	maxConns   = 6 << 10
	maxOps     = 1 << 17
	nextMemory = 1 << 30
	// connMemory is what a connection may leave unread at each side: the window, and a few frames
	// beside it, of which CREDIT may come by the quarter of the window.
	connMemory = window + 16*frameCost
	// peerMemory is what the connections with one peer may leave unread, and so bounds how many
	// there are; totalMemory is the same for all peers. It is also what a peer can fill with frames to
	// nobody.
	peerMemory  = 512 << 20
	totalMemory = 2 << 30
	// openAhead is how many receives are posted, at most, for what peers ask.
	openAhead = 32
	// shutdownTime is for how long a hub that ends waits for its last frames to leave.
	shutdownTime = time.Second
)

// maxIdle is how many peers without connections stay in the address vector.
var maxIdle = 256

var errMany = errors.New("efanet: as many connections as the endpoint takes, or as one peer may have of them")

// openHub opens the endpoint that a setup describes. The caller is its first user.
func openHub(ctx context.Context, s efa.Setup) (*hub, error) {
	cfg := &s.Endpoint
	setDefault(&cfg.TxDepth, maxOps)
	setDefault(&cfg.RxDepth, maxOps)
	setDefault(&cfg.NextMemory, nextMemory)
	setDefault(&cfg.Protocol.DetachLimit, maxGrant) // so that a Write that ends leaves a whole grant behind
	setDefault(&cfg.Protocol.PeerMemory, peerMemory)
	setDefault(&cfg.Protocol.TotalMemory, max(totalMemory, cfg.Protocol.PeerMemory))
	h := &hub{askEvery: askEvery, maxIdle: maxIdle, users: 1, peers: map[efa.Addr]*peer{}, byID: map[uint64]*Conn{}}
	cfg.Wanted = h.wanted
	ep, err := efa.OpenEndpoint(ctx, s)
	if err != nil {
		return nil, err
	}
	most, text := ep.Domain().Limits().MaxInject, ep.Address().String()
	if least := len((&open{from: text}).marshal()); most < least {
		_ = ep.Close() // nothing was sent
		return nil, fmt.Errorf("%w: connections on a device that injects %d bytes, less than a question's %d", efa.ErrNotSupported, most, least)
	}
	h.ep, h.local, h.most = ep, Addr{text}, min(most, maxFrame)
	h.epochs.Store(rand.Uint64()) // so that no other endpoint that had this address has had the same
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.served.Go(h.serve)
	return h, nil
}

func setDefault[T int | int64](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// conn is the connection with an id here, nil if there is none.
func (h *hub) conn(id uint64) *Conn {
	h.naming.RLock()
	defer h.naming.RUnlock()
	return h.byID[id]
}

// wanted reports whether a message that no receive has taken is for something that there is: a question, or a
// frame of a connection with its sender. The endpoint's shard asks.
func (h *hub) wanted(from efa.Addr, tagged bool, tag uint64) bool {
	id := tag & maxID
	if !tagged || tag < tagPrefix {
		return false
	}
	switch lane((tag - tagPrefix) >> idBits) {
	case laneOpen:
		return id == 0
	case laneWatch:
		return id == 0 && from != efa.NoAddr
	case laneStream, laneBulk, laneBack:
		c := h.conn(id)
		return c != nil && c.peer.at == from
	default:
		return false
	}
}

func (h *hub) nextID() uint64 { return h.ids.Add(1) & maxID }

// release ends a use. The last one closes the endpoint.
func (h *hub) release() {
	h.mu.Lock()
	h.users--
	last := h.users == 0
	h.mu.Unlock()
	if last {
		h.end()
	}
}

// end closes the endpoint, after the frames that are on their way.
func (h *hub) end() {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	_ = h.ep.Shutdown(ctx) // that it closed without waiting any longer concerns nobody
	h.cancel()
	h.served.Wait()
	_ = h.ep.Close()
}

// use begins a use, unless the hub has ended, or its endpoint has failed.
func (h *hub) use() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users == 0 || h.over.Load() != nil {
		return false
	}
	h.users++
	return true
}

// resolve is the address of the endpoint that addr means. join inserts it: until then it takes no place.
func resolve(ctx context.Context, addr string) (efa.Address, error) {
	if isText(addr) {
		return efa.ParseAddress(addr)
	}
	return efa.ResolveAddress(ctx, addr)
}

// join counts a connection with the endpoint at an address, and as a use of the hub.
func (h *hub) join(a efa.Address) (*peer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users == 0 {
		return nil, fmt.Errorf("%w: endpoint", efa.ErrClosed)
	}
	at, err := h.ep.AddressVector().Insert(a)
	if err != nil {
		return nil, err
	}
	p := h.peerAt(at, a.String())
	defer h.settle(p)
	if !h.count(p) {
		return nil, errMany
	}
	return p, nil
}

// count counts one more connection with a peer, if there is room for it. One peer may have three
// times what it leaves to the others. The hub is locked.
func (h *hub) count(p *peer) bool {
	if int64(p.conns+1)*connMemory > h.ep.Config().Protocol.PeerMemory || p.conns >= 3*(maxConns-h.conns) {
		return false
	}
	p.conns++
	h.conns++
	h.users++
	return true
}

// leave undoes join.
func (h *hub) leave(c *Conn) {
	p := c.peer
	h.mu.Lock()
	delete(p.on, c)
	p.conns--
	h.conns--
	h.settle(p)
	h.mu.Unlock()
	h.release()
}

// settle puts a peer on the list of those that nothing is to be done for, or takes it off. The hub
// is locked.
func (h *hub) settle(p *peer) {
	rests := p.conns == 0 && len(p.opens) == 0 && p.pinged == 0 && !p.answering
	if rests == p.rests || h.peers[p.at] != p {
		return
	}
	p.rests = rests
	if !rests {
		h.idle = without(h.idle, p)
		return
	}
	if h.idle = append(h.idle, p); len(h.idle) <= h.maxIdle {
		return
	}
	first := h.idle[0]
	h.idle = h.idle[1:]
	delete(h.peers, first.at)
	// Under the lock, so that nobody takes its handle meanwhile. The shard answers at once.
	_ = h.ep.AddressVector().Remove(h.ctx, first.at)
}

func without(list []*peer, p *peer) []*peer {
	for i, x := range list {
		if x == p {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

// A side that was stopped, or cut off, for so long that the other took it for dead has connections
// that the other has forgotten, and may only wait for bytes: nothing that it sends would tell it.
// So each side names its connections with the other by an epoch, a number that it gives once for
// as long as it knows the other, and states in OPEN and ACCEPT. A side with connections asks now
// and then by PING whether the other is still in the epoch that they are of; if it is not, the
// answer is GONE.

// askEvery is how often a side asks that has connections, as TCP's keepalive in package net.
var askEvery = 15 * time.Second

var errGone = errors.New("efanet: the other side has taken this one for dead meanwhile, and forgotten the connection")

// nextEpoch is a number between 1 and maxValue.
func (h *hub) nextEpoch() uint64 { return h.epochs.Add(1)%maxValue + 1 }

// begun counts a connection among those that are open. If the other side has begun a new epoch
// meanwhile, it has forgotten all others.
func (h *hub) begun(c *Conn, epoch uint64) {
	h.mu.Lock()
	p := c.peer
	var gone []*Conn
	if p.theirs != epoch {
		gone = p.forget()
	}
	p.theirs = epoch
	p.on[c] = struct{}{}
	h.mu.Unlock()
	loseAll(gone)
}

// forget empties on. The hub is locked.
func (p *peer) forget() []*Conn {
	var gone []*Conn
	for c := range p.on {
		gone = append(gone, c)
	}
	clear(p.on)
	return gone
}

func loseAll(gone []*Conn) {
	for _, c := range gone {
		c.lose()
	}
}

// gone ends the connections of an epoch of the peer's; of an earlier one there are none.
func (h *hub) gone(p *peer, epoch uint64) {
	h.mu.Lock()
	var gone []*Conn
	if p.theirs == epoch {
		gone = p.forget()
	}
	h.mu.Unlock()
	loseAll(gone)
}

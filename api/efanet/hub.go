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
	ctx      context.Context // ends with the hub
	cancel   context.CancelFunc
	ids      atomic.Uint64
	epochs   atomic.Uint64
	askEvery time.Duration
	to       atomic.Pointer[Listener] // gets connections that others open; nil: they are refused
	served   sync.WaitGroup           // its goroutines

	byID sync.Map // its connections, by their ids here

	mu    sync.Mutex
	users int
	peers map[efa.Addr]*peer
	idle  []*peer // those without connections, the longest first
}

// peer is an endpoint at the other side of connections. The hub owns it.
type peer struct {
	at     efa.Addr
	text   string // its address
	conns  int
	on     map[*Conn]struct{}    // of these, those that are open
	mine   uint64                // the epoch that we have told it, see hub.watch
	theirs uint64                // the one that it has told us; 0: none yet
	failed atomic.Pointer[error] // why nothing reaches it any more
}

// err is why nothing reaches the peer any more; nil: it is alive as far as is known.
func (p *peer) err() error {
	if err := p.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// start posts a receive as soon as there is room for it: many goroutines that read may have taken
// the endpoint's for a moment.
func (h *hub) start(r *efa.RecvReq) (*efa.Op, error) {
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
	// startAgain is when an endpoint is asked once more that had no room for a receive.
	startAgain = time.Millisecond
	// maxIdle is how many peers without connections stay in the address vector.
	maxIdle = 256
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
	// there are; totalMemory is the same for all peers.
	peerMemory  = 1 << 30
	totalMemory = 2 << 30
	// openAhead is how many receives are posted for connections that others open.
	openAhead = 4
	// shutdownTime is for how long a hub that ends waits for its last frames to leave.
	shutdownTime = time.Second
)

var errMany = errors.New("efanet: as many connections as the endpoint takes")

// openHub opens the endpoint that a setup describes. The caller is its first user.
func openHub(ctx context.Context, s efa.Setup) (*hub, error) {
	cfg := &s.Endpoint
	setDefault(&cfg.TxDepth, maxOps)
	setDefault(&cfg.RxDepth, maxOps)
	setDefault(&cfg.NextMemory, nextMemory)
	setDefault(&cfg.Protocol.DetachLimit, maxGrant) // so that a Write that ends leaves a whole grant behind
	setDefault(&cfg.Protocol.PeerMemory, peerMemory)
	setDefault(&cfg.Protocol.TotalMemory, max(totalMemory, cfg.Protocol.PeerMemory))
	ep, err := efa.OpenEndpoint(ctx, s)
	if err != nil {
		return nil, err
	}
	h := &hub{ep: ep, local: Addr{ep.Address().String()}, askEvery: askEvery, users: 1, peers: map[efa.Addr]*peer{}}
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

// use begins a use, unless the hub has ended.
func (h *hub) use() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users == 0 {
		return false
	}
	h.users++
	return true
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
	p := h.peers[at]
	if p == nil || p.err() != nil { // one that has failed keeps its connections, which are over
		h.idle = without(h.idle, p)
		p = &peer{at: at, text: a.String(), on: map[*Conn]struct{}{}, mine: h.nextEpoch()}
		if err := h.watch(p); err != nil {
			return nil, err
		}
		h.peers[at] = p
		h.idle = append(h.idle, p)
	}
	if int64(p.conns+1)*connMemory > h.ep.Config().Protocol.PeerMemory || h.users > maxConns {
		return nil, errMany
	}
	if p.conns == 0 {
		h.idle = without(h.idle, p)
	}
	p.conns++
	h.users++
	return p, nil
}

// leave undoes join.
func (h *hub) leave(c *Conn) {
	p := c.peer
	h.mu.Lock()
	delete(p.on, c)
	if p.conns--; p.conns == 0 && h.peers[p.at] == p {
		h.idle = append(h.idle, p)
	}
	if len(h.idle) > maxIdle {
		first := h.idle[0]
		h.idle = h.idle[1:]
		delete(h.peers, first.at)
		// Under the lock, so that nobody takes its handle meanwhile. The shard answers at once.
		_ = h.ep.AddressVector().Remove(h.ctx, first.at)
	}
	h.mu.Unlock()
	h.release()
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

// watch learns of the end of a peer, also where nobody reads: an injected frame does not tell.
// And it asks the peer whether it still knows of the connections.
func (h *hub) watch(p *peer) error {
	req := efa.RecvReq{From: p.at, Directed: true, Tagged: true, Tag: laneWatch.tag(0)}
	op, err := h.start(&req)
	if err != nil {
		return err
	}
	h.served.Go(func() {
		again := clock.NewTimer(h.askEvery)
		defer again.Stop()
		var asked *efa.Op
		for err == nil {
			select {
			case <-op.Done():
				if err = h.heard(p, op); err == nil {
					op, err = h.start(&req)
				}
			case <-again.C:
				again.Reset(h.askEvery)
				asked = h.ask(p, asked)
			}
		}
		p.failed.Store(&err)
	})
	return nil
}

// heard takes what has come on laneWatch: GONE, PRESS, or the error that is the peer's end.
func (h *hub) heard(p *peer, op *efa.Op) error {
	c, err := op.Wait(h.ctx)
	if err != nil {
		return err
	}
	f, err := parse(laneWatch, &c.Message)
	if err != nil {
		return err
	}
	if f.kind == kindGone {
		h.gone(p, f.value)
	} else if c, ok := h.byID.Load(f.value); ok && c.(*Conn).peer == p {
		c.(*Conn).in.press()
	}
	return nil
}

// ask sends a PING, unless there is nothing to ask or the one before has not left yet.
func (h *hub) ask(p *peer, before *efa.Op) *efa.Op {
	if before != nil {
		select {
		case <-before.Done():
		default:
			return before
		}
	}
	h.mu.Lock()
	q, conns := ping{p.theirs, h.ep.Address()}, len(p.on)
	h.mu.Unlock()
	if conns == 0 {
		return nil
	}
	op, err := h.ep.Start(&efa.SendReq{To: p.at, Tagged: true, Tag: laneOpen.tag(0), Buf: q.marshal(), HasData: true, Data: head(kindPing, 0)})
	if err != nil {
		return nil // the next time will do
	}
	return op
}

// pinged answers a PING, if its sender is to learn something.
func (h *hub) pinged(m *efa.Message, body []byte) {
	var q ping
	if q.unmarshal(body) != nil || !isFrom(m, q.from) {
		return
	}
	at, err := h.ep.AddressVector().Insert(q.from)
	if err != nil {
		return // it cannot be reached
	}
	h.mu.Lock()
	p := h.peers[at]
	known := p != nil && p.err() == nil && p.mine == q.epoch
	h.mu.Unlock()
	if !known {
		// Without waiting, since others want answers, too. If it gets lost, the next PING has one.
		_, _ = h.ep.Start(&efa.SendReq{To: at, Tagged: true, Tag: laneWatch.tag(0), Inject: true, HasData: true, Data: head(kindGone, q.epoch)})
	}
}

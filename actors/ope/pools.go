package ope

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/runtime/shard"
)

// An id on the wire is 19 bits of index, one that says txe or rxe, and 12 of
// generation, so that an id of a former use is known as such; to the peer it is
// opaque (§3.2).
const (
	indexBits = 19
	indexMask = 1<<indexBits - 1
	rxBit     = 1 << indexBits
	nextUse   = 2 * rxBit
	slab      = 32
	// MaxOps is the most operations of one kind that an endpoint can have.
	MaxOps = 1 << indexBits
)

// Pools are the operations of one endpoint: spawned in slabs when needed, armed
// again and again, never stopped before the endpoint.
type Pools struct {
	env    *peer.Env
	Policy *Policy // the endpoint's settings
	// Paths are the settings by path: how much is read, and from where on.
	Paths []Policy
	// Info is the device's, Infos are by path, Device registers memory to read into.
	Info   device.Info
	Infos  []device.Info
	Device device.Device
	// Regions are the domain's.
	Regions *mr.Table
	// Plain registers memory that is in none of them.
	Plain *mr.Cache
	// OnWritten is called for each of the peers' writes with data that is complete.
	OnWritten func(l *peer.Link, n int, data uint64)
	// OnServed is called for each access of a peer that was carried out here; may be nil.
	OnServed func(l *peer.Link, s *Served)
	// Closing: the endpoint ends, peers get no more packets than they are owed already.
	Closing bool
	// Spawn makes an actor of the endpoint's.
	Spawn func(p actor.Producer) shard.Ref
	// Unlist takes an unexpected message that failed out of the matcher.
	Unlist func(*Rxe)

	Entries *Entries // of this endpoint, or of all that share a pool of receives

	res    Result // scratch for outcomes, which a Sink must not keep
	sent   Result // the same of a txe's, in which what describes a received message is never set
	tx     []*Txe
	rx     []*Rxe
	txFree *Txe
	rxFree *Rxe
	most   int // MaxOps, but for tests

	follows   bool // the endpoint has a trail, or had one until it ended
	prepares  bool // every operation of ours, see prepare
	minGather int  // least bytes of which a path has the device take the payload from its place
	minRead   int  // least bytes of a message that may go read-based on some path
	maxData   int  // bytes that a CTSDATA packet carries

	// What waits for the peer's HANDSHAKE: messages that may be read, writes and reads, and what 2.6
	// takes for granted.
	waits struct{ reads, rma, known bool }
	// byPacket are the flags of writes that go as packets, also where the device writes.
	byPacket     Flags
	cutsAtPieces bool // a CTSDATA packet ends where a piece of the memory does

	waiting *waiting   // free entries for the matcher
	multis  *MultiRecv // free ones
	txExts  *txExt
	rxExts  *rxExt
	parts   *parts // free ones
	bounce  bounce
	reads   int // read-based messages of ours in flight

	detached uint64 // bytes copied for callers that have left

	// Tally counts outcomes.
	Tally Tally
	// Mix counts operations by subprotocol.
	Mix Mix
	// Steps counts what the machines did. It comes last, since it is so large that each look at what
	// comes after it has to check first that there are Pools.
	Steps Steps
}

// NewPools makes empty pools for the settings of env. spawn makes an actor of the endpoint's.
func NewPools(env *peer.Env, spawn func(actor.Producer) shard.Ref) *Pools {
	p := &Pools{env: env, Policy: &env.Config, Spawn: spawn, Entries: new(Entries), most: cmp.Or(env.Config.MaxOps, MaxOps)}
	p.OnPaths([]Policy{env.Config})
	p.follows = env.Trail != nil
	p.maxData = env.MTU - ctsDataHeader
	p.adopt(&env.Config.Habits)
	p.prepares = p.follows || p.waits.reads
	return p
}

// adopt takes over the habits of the release that the endpoint talks like.
func (p *Pools) adopt(h *settings.Habits) {
	if h.DataHeader > 0 {
		p.maxData = p.env.MTU - h.DataHeader
	}
	if h.InjectsPackets {
		p.byPacket = Inject
	}
	p.waits.reads, p.waits.rma, p.waits.known = h.ReadWaits, !h.RMANoWait, !h.Unasked
	p.cutsAtPieces = h.EndsAtPieces
}

// OnPaths sets the settings in force on each path.
func (p *Pools) OnPaths(on []Policy) {
	p.Paths, p.minGather, p.minRead = on, math.MaxInt, math.MaxInt
	for i := range on {
		if n := on[i].MinRead; n > 0 {
			p.minRead = min(p.minRead, n)
		}
		if n := on[i].MaxCopy; n > 0 && n < math.MaxInt {
			p.minGather = min(p.minGather, n+1)
		}
	}
}

// Begin takes an rxe for the message or write whose first packet is pkt; nil if there are MaxOps
// of them in use.
func (p *Pools) Begin(pkt *peer.Packet) *Rxe {
	r := p.rxFree
	if r == nil {
		if !p.growRx() {
			return nil
		}
		return p.Begin(pkt)
	}
	p.rxFree, r.busy = r.next, true
	r.arm(pkt.Link)
	proto := protoOf[pkt.Type]
	r.m.Begin(RxInit, proto, pkt.Length, pkt.Length)
	r.stored = uint64(len(pkt.Payload))
	r.first = pkt.Eager
	r.head = pkt
	p.Mix.Served[proto]++
	if pkt.Ext != nil || pkt.Multi != nil || p.follows {
		r.beginMore(pkt)
	}
	return r
}

// unasked reports whether delivery complete and READ_NACK go to a peer that has not said what it knows.
func (p *Pools) unasked(l *peer.Link) bool { return !p.waits.known && !l.Known() }

// HasRx reports whether one more operation that receives can begin.
func (p *Pools) HasRx() bool { return p.rxFree != nil || p.growRx() }

// HasTx reports whether one more operation that sends can begin.
func (p *Pools) HasTx() bool { return p.txFree != nil || p.growTx() }

// Read begins a read of ours from l's memory. False: there are MaxOps operations that
// receive, and nothing has happened.
func (p *Pools) Read(q *Request, l *peer.Link) bool {
	r := p.GetRx()
	if r == nil {
		return false
	}
	r.ask(p.Entries.Get(q, p.env.Sh.Now()), l)
	r.x.submit()
	return true
}

// Find implements peer.OpTable.
func (p *Pools) Find(id uint32) shard.Ref {
	i := id & indexMask
	if id&rxBit != 0 {
		if i < uint32(len(p.rx)) {
			if r := p.rx[i]; r.busy && r.id == id {
				return r.ref
			}
		}
		return shard.Ref{}
	}
	if i < uint32(len(p.tx)) {
		if t := p.tx[i]; t.busy && t.id == id {
			return t.ref
		}
	}
	return shard.Ref{}
}

// GetTx takes a txe; nil if there are MaxOps of them in use.
func (p *Pools) GetTx() *Txe {
	if p.txFree == nil && !p.growTx() {
		return nil
	}
	t := p.txFree
	p.txFree, t.next = t.next, nil
	t.busy = true
	return t
}

// GetRx takes an rxe; nil if there are MaxOps of them in use.
func (p *Pools) GetRx() *Rxe {
	if p.rxFree == nil && !p.growRx() {
		return nil
	}
	r := p.rxFree
	p.rxFree, r.next = r.next, nil
	r.busy = true
	return r
}

func (p *Pools) growTx() bool {
	if len(p.tx)+slab > p.most {
		return false
	}
	s := make([]Txe, slab)
	for i := range s {
		t := &s[i]
		t.pools, t.id = p, uint32(len(p.tx))+p.env.Config.FirstUse*nextUse
		p.tx = append(p.tx, t)
		t.ref = p.Spawn(func() actor.Actor { return t })
		t.ticket.Init(t.ref)
		t.member.Of(&t.ticket)
		t.slot.To = t.ref
		t.m.Count(&p.Steps)
		t.c.Count(&p.Steps)
	}
	for i := len(s) - 1; i >= 0; i-- {
		s[i].next, p.txFree = p.txFree, &s[i]
	}
	return true
}

func (p *Pools) growRx() bool {
	if len(p.rx)+slab > p.most {
		return false
	}
	s := make([]Rxe, slab)
	for i := range s {
		r := &s[i]
		r.pools, r.id = p, (uint32(len(p.rx))|rxBit)+p.env.Config.FirstUse*nextUse
		p.rx = append(p.rx, r)
		r.ref = p.Spawn(func() actor.Actor { return r })
		r.slot.To, r.slot.Control = r.ref, true
		r.matched.Rxe, r.unexp.Rxe = r, r
		r.m.Count(&p.Steps)
		r.c.Count(&p.Steps)
	}
	for i := len(s) - 1; i >= 0; i-- {
		s[i].next, p.rxFree = p.rxFree, &s[i]
	}
	return true
}

// nextID is the id of the next use of the same index.
func nextID(id uint32) uint32 { return id + nextUse }

func (p *Pools) putTxExt(x *txExt, l *peer.Link) {
	p.env.Sh.StopTimer(&x.late.timer)
	x.releaseMemory(p)
	if x.block != nil {
		p.env.Pool.PutBlock(x.block)
	}
	if x.charged > 0 {
		l.Uncharge(x.charged)
	}
	x.runtOver(l, x.runt)
	*x = txExt{next: p.txExts, iovs: x.iovs, used: x.used}
	p.txExts = x
}

func (p *Pools) putRxExt(x *rxExt, l *peer.Link) {
	x.used.release()
	if x.charged > 0 {
		l.Uncharge(x.charged)
	}
	turn := x.ticket.Again()
	*x = rxExt{next: p.rxExts, used: x.used}
	x.ticket = turn
	p.rxExts = x
}

// Rxe returns the rxe with the given index (match.Msg.Owner).
func (p *Pools) Rxe(i int32) *Rxe { return p.rx[i] }

// EachTx calls f for every txe in use, in the order of their ids.
func (p *Pools) EachTx(f func(*Txe)) {
	for _, t := range p.tx {
		if t.busy {
			f(t)
		}
	}
}

// EachRx calls f for every rxe in use, in the order of their ids.
func (p *Pools) EachRx(f func(*Rxe)) {
	for _, r := range p.rx {
		if r.busy {
			f(r)
		}
	}
}

// CancelParts has no more parts begin of the requests that end with err: the one with an id,
// or, if mem is not nil, all whose memory has a byte in common with mem. The parts in progress
// are canceled as operations of their own.
func (p *Pools) CancelParts(id uint64, mem []byte, err error) {
	cancel := func(q *Request) {
		g, ok := q.Sink.(*parts)
		if ok && g.canceled == nil && (mem == nil && g.req.ID == id || mem != nil && g.req.Touches(mem)) {
			g.canceled = err
		}
	}
	p.EachTx(func(t *Txe) { cancel(t.q) })
	p.EachRx(func(r *Rxe) {
		if r.entry != nil {
			cancel(&r.entry.Req)
		}
	})
}

// HasPending reports whether a peer waits for packets of ours by which its own operations end,
// and with which the device or the peer's back-off is not done: RECEIPT, EOR, ATOMRSP or
// PEER_ERROR. An endpoint that closes sends them yet, as libfabric's does. The answer to
// a read is not one of them: its length is up to the requester.
func (p *Pools) HasPending() bool {
	return slices.ContainsFunc(p.tx, (*Txe).HasPending) || slices.ContainsFunc(p.rx, (*Rxe).HasPending)
}

// Hand gives a receive with the flag Sized the outcome that its message was claimed, or that it is
// recalled.
func (p *Pools) Hand(o *Entry, res *Result) {
	drop(p.env.Trail, o) // the claimed message is received by a request of its own
	o.Req.Sink.Done(&o.Req, res)
	p.Entries.Put(o)
}

// violation counts a step that no table has, of an operation with l, and returns the error of its operation.
func (p *Pools) violation(l *peer.Link, err error) error {
	p.env.Counters.Violations++
	p.env.LogOf(l).Error("a step that its machine does not have", "err", err)
	return fmt.Errorf("%w: %w", ErrInternal, err)
}

package ope

import (
	"math"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
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

	Orders *Orders // of this endpoint, or of all that share a pool of receives

	res    Result // scratch for outcomes, which a Sink must not keep
	sent   Result // the same of a txe's, in which what describes a received message is never set
	tx     []*Txe
	rx     []*Rxe
	txFree *Txe
	rxFree *Rxe

	follows   bool // the endpoint has a trail, or had one until it ended
	prepares  bool // every operation of ours, see prepare
	minGather int  // least bytes of which a path has the device take the payload from its place
	minRead   int  // least bytes of a message that may go read-based on some path
	maxData   int  // bytes that a CTSDATA packet carries

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
	p := &Pools{env: env, Policy: &env.Config, Spawn: spawn, Orders: new(Orders)}
	p.OnPaths([]Policy{env.Config})
	p.follows = env.Trail != nil
	p.prepares = p.follows || env.Config.Era.ReadWaits
	p.maxData = env.MTU - ctsDataHeader
	if n := env.Config.Era.DataHeader; n > 0 {
		p.maxData = env.MTU - n
	}
	return p
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
	if len(p.tx)+slab > MaxOps {
		return false
	}
	s := make([]Txe, slab)
	for i := range s {
		t := &s[i]
		t.pools, t.id = p, uint32(len(p.tx))+p.env.Config.FirstUse*nextUse
		p.tx = append(p.tx, t)
		t.ref = p.Spawn(func() actor.Actor { return t })
		t.turn.Init(t.ref)
		t.member.Of(&t.turn)
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
	if len(p.rx)+slab > MaxOps {
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

// nextID is the id of the next use of the same index.
func nextID(id uint32) uint32 { return id + nextUse }

// facts fills in what is known of the peer, the devices and the memory.
func (p *Pools) facts(f *Facts, l *peer.Link, q *Request) {
	f.UserQP, f.Remotes = l.Headerless, q.remotes()
	if q.Kind == KindSend && !p.mayRead(l, f.Total) {
		return
	}
	f.MediumFirst = p.env.Config.Era.MediumFirst
	f.CanRead = p.mayRDMARead(l) && l.CanRDMA(wire.FeatureRDMARead)
	f.CanWrite = p.info(l).RDMAWrite && !p.Policy.NoRDMAWrite && l.CanRDMA(wire.FeatureRDMAWrite) &&
		(q.Flags&Inject == 0 || !p.env.Config.Era.InjectsPackets)
	if f.MaxRDMA = p.piece(q); f.MaxRDMA == 0 {
		f.MaxRDMA = p.maxRDMA(l)
	}
	f.Target = reachable(q.Kind, q.Key)
	f.SameUnsolicited = uint64(uint32(q.Data)) == q.Data && (l.Self || p.env.Config.Homogeneous ||
		l.Features.Has(wire.FeatureUnsolicitedWrite) == p.policy(l).Features.Has(wire.FeatureUnsolicitedWrite))
	if !f.CanRead && !f.CanWrite {
		return
	}
	if q.listed() {
		p.listFacts(f, l, q)
	} else {
		p.bufferFacts(f, l, q)
	}
	if !f.Source {
		return
	}
	if f.CanRunt = l.Can(wire.FeatureRunt); p.reads == 0 {
		f.Runt = p.Policy.RuntSize - l.Runt
	}
}

// bufferFacts fills in what is known of the buffer of a request.
func (p *Pools) bufferFacts(f *Facts, l *peer.Link, q *Request) {
	var r *mr.Region
	if q.Flags&Borrowed == 0 {
		r = p.Regions.Find(q.Buf)
	}
	plain := r == nil && q.Flags&Borrowed == 0 && p.registers(l, f.Total)
	f.Local = !p.keyed(l) || plain || r != nil && (q.Kind != KindRead || writable(r))
	f.Source = plain && p.lends(l, f.Total) || q.Flags&Borrowed == 0 && p.readable(l, r)
}

// readable reports whether peers' devices can read a message from memory that lies in r, or in
// no region, as far as the device here is concerned.
func (p *Pools) readable(l *peer.Link, r *mr.Region) bool {
	if r == nil || !r.Remote(l.Path) && r.Access()&mr.Send != 0 {
		return p.lendsPlain(l)
	}
	return r.Remote(l.Path) && r.Access()&mr.Send != 0
}

// writable reports whether the device may put what it reads into the region.
func writable(r *mr.Region) bool { return r.Access()&device.LocalWrite != 0 }

func (p *Pools) mayRDMARead(l *peer.Link) bool { return p.info(l).RDMARead && !p.Policy.NoRDMARead }

// info is the device's that carries to the peer.
func (p *Pools) info(l *peer.Link) *device.Info { return &p.Infos[l.Path] }

// policy is what holds on the peer's path.
func (p *Pools) policy(l *peer.Link) *Policy { return &p.Paths[l.Path] }

func (p *Pools) maxRDMA(l *peer.Link) int { return max(1, p.Paths[l.Path].ReadSegment) }

// connID is what packets that are no requests say of their sender.
func (p *Pools) connID() (has bool, id uint32) {
	if p.env.Config.Era.NoConnID {
		return false, 0
	}
	return true, p.env.ConnID
}

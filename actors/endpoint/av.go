package endpoint

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// peers is the endpoint's directory of peers: it owns the peer of each handle of the
// address vector, the routes from where a packet came to the peer there, the peers that
// are in no address vector (implicit_av.go), and the peers that others replaced
// and that still have operations in progress. It makes peer actors and stops them.
//
// Requests ask it for the peer of a handle, the device queue for the actor of a packet;
// Endpoint.Receive passes it the packets that no peer takes (implicit_av.go), and
// Endpoint.Insert and Endpoint.Remove the changes of the address vector.
type peers struct {
	env     *peer.Env
	pools   *ope.Pools
	table   *match.Table // from the endpoint's start
	closing *closing
	book    AddressBook
	spawn   func(actor.Producer) shard.Ref
	event   func(Event)
	multi   *multiRecvs
	most    int // entries of the implicit AV

	byHandle []*peer.Link
	routes   routes
	implicit implicitAV
	overflow overflow
	evicted  evictedPeers
	checks   connidChecks
	later    later
	replaced []*peer.Link
}

// link returns the peer of a handle, which it makes at the handle's first use.
func (p *peers) link(handle uint64) (*peer.Link, error) {
	if l := p.lookup(handle); l != nil {
		return l, nil
	}
	addr, err := p.book.Address(handle)
	if err != nil {
		return nil, err
	}
	ah, err := p.qp().CreateAH(addr.GID())
	if err != nil {
		return nil, fmt.Errorf("%w: address handle for %s: %w", errno.ErrHostUnreach, p.uri(&addr), err)
	}
	if x := p.routes.get(ah, addr.QPN()); x != nil && x.cur != nil && x.cur.QKey == addr.ConnID() {
		_ = p.qp().DestroyAH(ah) // the peer holds it already
		p.bind(x.cur, handle)
		return x.cur, nil
	} else if x != nil && x.cur != nil && x.cur.Age > p.book.Age(handle) {
		_ = p.qp().DestroyAH(ah)
		return nil, fmt.Errorf("%w: handle %d is of a former one", peer.ErrReplaced, handle)
	} else if x != nil && x.isFormer(addr.ConnID()) {
		_ = p.qp().DestroyAH(ah)
		return nil, fmt.Errorf("%w, and has not come back with a new connid", peer.ErrPeerFailed)
	}
	l := p.create(addr, ah, handle, p.book.Age(handle))
	l.Move(peer.MoveInsert)
	p.setHandle(handle, l)
	return l, nil
}

// lookup returns the peer of a handle if there is one by now, else nil.
func (p *peers) lookup(handle uint64) *peer.Link {
	if handle >= uint64(len(p.byHandle)) {
		return nil
	}
	return p.byHandle[handle]
}

func (p *peers) setHandle(handle uint64, l *peer.Link) {
	for uint64(len(p.byHandle)) <= handle {
		p.byHandle = append(p.byHandle, nil)
	}
	p.byHandle[handle] = l
}

// create makes the peer at addr. A peer that was there is replaced; age orders the two.
func (p *peers) create(addr wire.RawAddr, ah device.AH, handle, age uint64) *peer.Link {
	p.reap()
	p.probeQuiet()
	l := p.newPeer(addr, ah, handle, age)
	p.install(l)
	return l
}

// newPeer makes a peer that has no route yet.
func (p *peers) newPeer(addr wire.RawAddr, ah device.AH, handle, age uint64) *peer.Link {
	l := &peer.Link{
		Handle: handle, Age: age, Addr: addr, AH: ah, Path: uint8(p.qp().PathOf(ah)), QPN: addr.QPN(), QKey: addr.ConnID(),
	}
	p.env.Spawn(l, p.spawn)
	return l
}

// install gives a peer its route, and what was remembered of it.
func (p *peers) install(l *peer.Link) {
	rest, rested := p.evicted.remove(qpAddrOf(l.Addr), p.qp())
	if rested = rested && rest.QKey == l.QKey; rested {
		l.Restore(&rest.Evicted)
	}
	if former := p.routes.set(l); former != nil {
		p.env.Trail.Put(l.Span, trail.Replaces, 0, former.Span, 0)
		p.removeUnlisted(former)
		former.Move(peer.MoveReplace)
		p.replaced = append(p.replaced, former)
		p.env.Sh.Tell(former.Peer, &peer.Remove{Err: peer.ErrReplaced, Tell: true})
	}
}

// forget drops a peer that has failed and that no handle names, so that only its connid
// is kept.
func (p *peers) forget(l *peer.Link) {
	if l.Buried() && l.Handle == peer.Unlisted {
		p.drop(l)
	}
}

// drop takes an unlisted peer out of its route.
func (p *peers) drop(l *peer.Link) {
	if p.routes.drop(l) {
		p.removeUnlisted(l)
		l.Move(peer.MoveForget)
		p.replaced = append(p.replaced, l)
	}
}

// reap stops replaced peers that have no operation in progress any more.
func (p *peers) reap() {
	keep := p.replaced[:0]
	for _, l := range p.replaced {
		if l.Busy() || l.Charged() > 0 || p.env.Q.Holds(l.Peer) {
			keep = append(keep, l)
			continue
		}
		if p.lookup(l.Handle) == l {
			p.byHandle[l.Handle] = nil
		}
		p.env.Sh.Stop(l.Peer)
		l.ForgetHostID()
		_ = p.qp().DestroyAH(l.AH) // it was created by us, so this does not fail
		l.Multipath.Drop(p.qp())
	}
	clear(p.replaced[len(keep):])
	p.replaced = keep
}

// find returns the peer that is at addr now, or nil.
func (p *peers) find(addr wire.RawAddr) *peer.Link {
	if l := p.at(addr.GID(), addr.QPN()); l != nil && l.Addr == addr {
		return l
	}
	return nil
}

// at returns the peer that is at a queue pair now, nil if there is none or gid is zero. It
// is the slow way: for what comes without an address handle, since the device has lost its
// own. Releases of libfabric until 1.13 do not say in all their packets who sends them.
func (p *peers) at(gid device.GID, qpn uint16) *peer.Link {
	if gid == (device.GID{}) {
		return nil
	}
	for _, m := range p.routes.byAH {
		if x := m[qpn]; x != nil && x.cur != nil && x.cur.Addr.GID() == gid {
			return x.cur
		}
	}
	return nil
}

// now returns the peer of what the device has reported, nil if there is none: gid says where it is if
// ah does not. There was none when the device said so, but one may have come since, on the way here.
func (p *peers) now(ah device.AH, qpn uint16, gid device.GID) *peer.Link {
	if ah != device.UnknownAH {
		return p.routes.find(ah, qpn)
	}
	return p.at(gid, qpn)
}

// uri is an address for which there is no address handle: of several devices none is known to
// lead there, which libfabric's form leaves open.
func (p *peers) uri(a *wire.RawAddr) string {
	if len(p.env.Paths) == 1 {
		return p.env.URI(a, 0)
	}
	return a.String()
}

// byPID returns the peer whose actor pid is, nil if it is no peer's.
func (p *peers) byPID(pid *actor.PID) *peer.Link {
	for l := range p.routes.all() {
		if pid.Equal(l.Peer.PID()) {
			return l
		}
	}
	for _, l := range p.replaced {
		if pid.Equal(l.Peer.PID()) {
			return l
		}
	}
	return nil
}

// probeAll has all peers that have not failed answer.
func (p *peers) probeAll() {
	var alive []*peer.Link
	for l := range p.routes.all() {
		if l.Err == nil {
			alive = append(alive, l)
		}
	}
	slices.SortFunc(alive, func(a, b *peer.Link) int {
		return cmp.Or(cmp.Compare(a.AH, b.AH), cmp.Compare(a.QPN, b.QPN))
	})
	for _, l := range alive {
		l.Probe()
	}
}

// endTrail records the end of the peers that have not failed.
func (p *peers) endTrail(t *trail.Log) {
	var alive []uint64
	for l := range p.routes.all() {
		if l.Err == nil {
			alive = append(alive, l.Span)
		}
	}
	slices.Sort(alive)
	for _, span := range alive {
		t.Outcome(span, trail.PeerEnd, 0, nil)
	}
}

// removeUnlisted takes a peer out of the implicit AV, or of its overflow.
func (p *peers) removeUnlisted(l *peer.Link) {
	p.implicit.remove(l)
	p.overflow.remove(l)
}

func (p *peers) qp() device.QP { return p.env.Q.QP() }

// Insert tells the endpoint of the n new handles from first in the address vector. Peers
// that were known before their addresses have handles from now on. Runs on the shard.
func (e *Endpoint) Insert(first, n uint64) {
	switch {
	case e.closing.state == stopped:
	case e.port != nil:
		e.port.Insert(first, n)
	default:
		e.peers.insert(first, n)
		e.claims.waits.offer(&e.claims)
	}
}

// learnHandle gives an unlisted peer its handle if its address was inserted and the endpoint has
// not handled that yet.
func (e *Endpoint) learnHandle(l *peer.Link) {
	if l.Handle == peer.Unlisted {
		e.cfg.News()
	}
}

// Remove takes a handle away: operations in progress with the peer end with ErrRemoved,
// their messages go on from copies so that no msg_id gets lost. The peer stays, in no
// address vector, and resumes when its address is inserted again. Runs on the shard.
func (e *Endpoint) Remove(handle uint64) {
	if e.closing.state == stopped {
		return
	}
	if e.port != nil {
		e.port.Remove(handle)
		return
	}
	e.failReceives(func(p *ope.Entry) bool { return p.Req.Peer != handle }, peer.ErrRemoved)
	l := e.peers.remove(handle)
	if l == nil {
		return
	}
	sh := e.cfg.Shard
	e.pools.EachTx(func(t *ope.Txe) {
		if t.Link() == l {
			sh.Tell(t.Ref(), &ope.Cancel{ID: t.Request().ID, Err: peer.ErrRemoved})
		}
	})
	e.pools.EachRx(func(r *ope.Rxe) {
		if r.Link() == l && r.RequestID() != 0 { // an unexpected message stays
			sh.Tell(r.Ref(), &ope.Cancel{ID: r.RequestID(), Err: peer.ErrRemoved})
		}
	})
}

// bind gives an unlisted peer its handle: its unexpected messages can now match receives that
// name it.
func (p *peers) bind(l *peer.Link, handle uint64) {
	p.removeUnlisted(l)
	l.Move(peer.MoveInsert)
	l.Handle, l.Age = handle, max(l.Age, p.book.Age(handle))
	p.setHandle(handle, l)
	for _, m := range p.unexpected(l) {
		p.table.Rekey(m, match.Source(handle))
		// A receive that names the handle may have waited for this message.
		if r := p.table.Arrive(m.Kind, m.Tag, match.Source(handle)); r != nil {
			p.multi.match(p.pools.Rxe(m.Owner), p.pools.Entries.At(r.Owner), m)
		}
	}
}

// insert binds peers that were known before their addresses got the n handles from first.
func (p *peers) insert(first, n uint64) {
	if p.implicit.size()+len(p.overflow.entries) == 0 {
		return
	}
	for h := first; h < first+n; h++ {
		addr, err := p.book.Address(h)
		if err != nil {
			continue
		}
		if l := p.find(addr); l != nil && l.Handle == peer.Unlisted {
			p.bind(l, h)
		}
	}
}

// remove makes the peer of a handle an unlisted one, and returns it; nil if there was none.
func (p *peers) remove(handle uint64) *peer.Link {
	l := p.lookup(handle)
	if l == nil {
		return nil
	}
	p.byHandle[handle] = nil
	l.Handle = peer.Unlisted
	if x := p.routes.get(l.AH, l.QPN); x != nil && x.cur == l {
		p.implicit.add(l)
		l.Move(peer.MoveRemove)
		p.forget(l)
	}
	for _, m := range p.unexpected(l) {
		p.table.Rekey(m, match.NotAvail) // the handle may soon be another peer's
	}
	return l
}

// unexpected lists l's messages that wait for a receive, oldest first.
func (p *peers) unexpected(l *peer.Link) []*match.Msg {
	var theirs []*match.Msg
	p.table.EachMsg(func(m *match.Msg) bool {
		if p.pools.Rxe(m.Owner).Link() == l {
			theirs = append(theirs, m)
		}
		return true
	})
	return theirs
}

// outdated reports whether the handle of a request that HasGeneration is not that peer's any more
// which the caller meant.
func (e *Endpoint) outdated(r *ope.Request) bool { return e.cfg.Book.Age(r.Peer) != r.Generation() }

// routes finds the peer of a received packet by the queue pair that sent it (libfabric's
// reverse address vector, §4.4). The device queue looks packets up in it, peers writes it;
// all on the shard.
type routes struct {
	byAH  []map[uint16]*route
	gids  []device.GID // by AH
	empty []uint32     // keys of routes without a peer, oldest first; some have one again
	cache [cacheSize]cacheEntry
}

// cacheEntry is a peer that sent a packet lately. Most packets are routed without the maps.
type cacheEntry struct {
	key  uint32 // AH and QPN
	link *peer.Link
}

const cacheSize = 64

func cacheKey(ah device.AH, qpn uint16) uint32 { return uint32(ah)<<16 | uint32(qpn) }

// route is one (AH, QPN): the peer there, and the connids of earlier ones.
type route struct {
	cur    *peer.Link // nil if it was dropped
	former []uint32   // oldest first
	rate   connidRate // of those that come
}

// maxEmpty is the number of routes without a peer that are remembered.
const maxEmpty = 1 << 14

// maxFormer is the number of former connids that a route remembers.
const maxFormer = 16

// cached returns the peer at (ah, qpn) if the cache has it.
func (r *routes) cached(ah device.AH, qpn uint16) *peer.Link {
	key := cacheKey(ah, qpn)
	if c := &r.cache[(key^key>>16)%cacheSize]; c.key == key {
		return c.link
	}
	return nil
}

// find returns the peer at (ah, qpn), or nil, and enters it into the cache.
func (r *routes) find(ah device.AH, qpn uint16) *peer.Link {
	x := r.get(ah, qpn)
	if x == nil || x.cur == nil {
		return nil
	}
	key := cacheKey(ah, qpn)
	r.cache[(key^key>>16)%cacheSize] = cacheEntry{key, x.cur}
	return x.cur
}

// get returns the route of (ah, qpn), or nil.
func (r *routes) get(ah device.AH, qpn uint16) *route {
	if int(ah) < len(r.byAH) {
		return r.byAH[ah][qpn]
	}
	return nil
}

// all yields the current peers, in no order.
func (r *routes) all() iter.Seq[*peer.Link] {
	return func(yield func(*peer.Link) bool) {
		for _, byQPN := range r.byAH {
			for _, x := range byQPN {
				if x.cur != nil && !yield(x.cur) {
					return
				}
			}
		}
	}
}

// gid returns the GID of what the device has reported, which says it itself unless it has an address
// handle: zero if the device does not know it.
func (r *routes) gid(ah device.AH, gid device.GID) device.GID {
	if int(ah) < len(r.gids) {
		return r.gids[ah]
	}
	return gid
}

// set makes l the current peer at its queue pair, and returns the one that it replaces.
func (r *routes) set(l *peer.Link) (former *peer.Link) {
	clear(r.cache[:])
	for int(l.AH) >= len(r.byAH) {
		r.byAH, r.gids = append(r.byAH, nil), append(r.gids, device.GID{})
	}
	if gid := l.Addr.GID(); r.gids[l.AH] != gid { // the device has used the handle's number again
		r.gids[l.AH], r.byAH[l.AH] = gid, nil
	}
	m := r.byAH[l.AH]
	if m == nil {
		m = make(map[uint16]*route)
		r.byAH[l.AH] = m
	}
	x := m[l.QPN]
	if x == nil {
		m[l.QPN] = &route{cur: l}
		return nil
	}
	former, x.cur = x.cur, l
	if former != nil {
		x.remember(former)
	}
	return former
}

// drop takes l out of its route; false if another peer is there.
func (r *routes) drop(l *peer.Link) bool {
	x := r.get(l.AH, l.QPN)
	if x == nil || x.cur != l {
		return false
	}
	clear(r.cache[:])
	x.cur = nil
	x.remember(l)
	r.addEmpty(l)
	return true
}

// vacate takes l out of its route until it is heard again. Its connid is not a former one.
func (r *routes) vacate(l *peer.Link) {
	x := r.get(l.AH, l.QPN)
	if x == nil || x.cur != l {
		return
	}
	clear(r.cache[:])
	x.cur = nil
	r.addEmpty(l)
}

// addEmpty notes that the route of l has no peer.
func (r *routes) addEmpty(l *peer.Link) {
	if r.empty = append(r.empty, cacheKey(l.AH, l.QPN)); len(r.empty) > maxEmpty {
		r.forget(r.empty[0])
		r.empty = r.empty[1:]
	}
}

// forget deletes a route that has no peer.
func (r *routes) forget(key uint32) {
	m := r.byAH[key>>16]
	if x := m[uint16(key)]; x != nil && x.cur == nil {
		delete(m, uint16(key))
	}
}

func (x *route) remember(l *peer.Link) { x.addFormer(l.QKey) }

// addFormer remembers the connid of a former endpoint.
func (x *route) addFormer(connid uint32) {
	if len(x.former) == maxFormer {
		x.former = x.former[1:]
	}
	x.former = append(x.former, connid)
}

// isFormer reports whether connid belonged to a former endpoint there.
func (x *route) isFormer(connid uint32) bool {
	return slices.Contains(x.former, connid)
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

// later is packets of newcomers for which the device had no address handle to give, for want of memory
// or descriptors. The device has acknowledged them, so they wait as those of newcomers on trial do, and are
// handled once more after a while. It belongs to the endpoint's shard, and owns the timer of the next try.
type later struct {
	peers *peers
	pkts  []*device.RecvPkt
	timer shard.Timer
	tick  laterTick
}

// laterTick is when to try again.
type laterTick struct{ shard.Message }

// laterEvery is the time between two tries.
const laterEvery = 5 * time.Millisecond

// keep has a packet wait.
func (w *later) keep(r *device.RecvPkt) {
	r = r.Copy()
	w.peers.checks.count(r, 1)
	if w.pkts = append(w.pkts, r); len(w.pkts) == 1 {
		env := w.peers.env
		env.Sh.StartTimer(&w.timer, laterEvery, env.Endpoint, &w.tick)
	}
}

// onTick handles the packets once more. Those for which there still is no handle wait again.
func (w *later) onTick() {
	pkts := w.pkts
	w.pkts = nil
	for _, r := range pkts {
		w.peers.checks.count(r, -1)
		if l := w.peers.routes.find(r.AH, r.QPN); l != nil {
			w.peers.onOtherConnID(&peer.Stranger{Pkt: r, Link: l})
		} else {
			w.peers.onUnlisted(r)
		}
	}
}

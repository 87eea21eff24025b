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
	"github.com/efactor/efactor/runtime/clock"
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
	if c := p.checks.byAddr[qpAddrOf(l.Addr)]; c != nil { // the application has inserted it
		p.checks.contest(c, p.routes.get(l.AH, l.QPN))
		p.checks.letGo(c)
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
		if l.Busy() || l.Charged() > 0 || p.env.Q.Holds(l.Peer) || !p.env.Sh.Unburdened(l.Peer) {
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
func (p *peers) at(gid device.GID, qpn uint16) *peer.Link { return p.now(device.UnknownAH, qpn, gid) }

// now returns the peer of what the device has reported, nil if there is none: gid says where it is if
// ah does not. There was none when the device said so, but one may have come since, on the way here.
func (p *peers) now(ah device.AH, qpn uint16, gid device.GID) *peer.Link {
	if x := p.route(ah, qpn, gid); x != nil {
		return x.cur
	}
	return nil
}

// route is now of the route.
func (p *peers) route(ah device.AH, qpn uint16, gid device.GID) (x *route) {
	if ah != device.UnknownAH {
		return p.routes.get(ah, qpn)
	}
	if gid == (device.GID{}) {
		return nil
	}
	for i, m := range p.routes.byAH { // of several handles that had the GID the last is in use
		if p.routes.gids[i] == gid && m[qpn] != nil && (x == nil || m[qpn].cur != nil) {
			x = m[qpn]
		}
	}
	return x
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

// insert binds peers that were known before their addresses got the n handles from first. A place where newcomers
// wait is held back no more.
func (p *peers) insert(first, n uint64) {
	if p.implicit.size()+len(p.overflow.entries)+len(p.checks.byAddr) == 0 {
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
		if c := p.checks.byAddr[qpAddrOf(addr)]; c != nil {
			c.listed = true
			p.checks.letGo(c)
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

	since     clock.Time // when came was counted
	came      uint8      // new endpoints in a row, see allow
	contested bool       // newcomers wait, see connidCheck
	empty     bool       // it is in routes.empty
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

// find returns the peer at (ah, qpn), which it enters into the cache, or nil: the endpoint deals with
// what comes from there.
func (r *routes) find(ah device.AH, qpn uint16) *peer.Link {
	x := r.get(ah, qpn)
	if x == nil || x.cur == nil || x.contested {
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

// uncache has the packets of l looked up by find.
func (r *routes) uncache(l *peer.Link) {
	key := cacheKey(l.AH, l.QPN)
	if c := &r.cache[(key^key>>16)%cacheSize]; c.key == key {
		*c = cacheEntry{}
	}
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
	r.addEmpty(l, x)
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
	r.addEmpty(l, x)
}

// addEmpty notes that the route of l, x, has no peer.
func (r *routes) addEmpty(l *peer.Link, x *route) {
	if x.empty {
		return // one at which many come and go takes no other's place
	}
	x.empty = true
	if r.empty = append(r.empty, cacheKey(l.AH, l.QPN)); len(r.empty) > maxEmpty {
		r.forget(r.empty[0])
		r.empty = r.empty[1:]
	}
}

// forget deletes a route that has no peer.
func (r *routes) forget(key uint32) {
	m := r.byAH[key>>16]
	x := m[uint16(key)]
	if x == nil {
		return
	}
	if x.empty = false; x.cur == nil {
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

// connidCheck is about a queue pair from which packets of newcomers came: of endpoints that claim to have replaced the
// peer there, by a new connid. They wait in their order until it is known of the first newcomer whether it is there, or was; and
// before that until it may be let in. The device has acknowledged them, so none is dropped: they are copied out of
// their receive slots, and count towards TotalMemory, above which all senders are throttled. Meanwhile all that comes from
// there goes by way of the endpoint.
type connidCheck struct {
	at     qpAddr
	route  *route     // of the place, nil if there is none
	link   *peer.Link // on trial; nil: none may be let in yet
	began  clock.Time
	heard  clock.Time // the last packet that waits came
	former clock.Time // the last packet of the peer at the place came since then
	asks   int        // our HANDSHAKE was refused, and the peer at the place has so many probes to answer
	pkts   []*device.RecvPkt
	gone   []*device.Gone // of those that sent some of pkts
	bytes  int64          // that pkts count for
	late   bool           // link was not there: its packets are late
	ended  bool           // link was there, and has ended: the device says so
	listed bool           // the application has inserted an address there, which may send: it is not held back
	holds  bool           // the place is held back, by ah
	ah     device.AH
}

const (
	// waitPackets is how many packets come from a place before it is held back, where the device can do that.
	waitPackets = 16
	// trialMost is how long a trial takes at most.
	trialMost = 2 * time.Second
	// waitCost is what a packet that waits counts for, beside its bytes.
	waitCost = 512
	// waitMost is beyond PeerMemory what may wait from a place: what was under way before it was held back. A card
	// cannot do that, and there a place that sends more hoards.
	waitMost = 64 << 20
	// letIn is how many places are looked at a time, whether newcomers there may be let in.
	letIn = 256
)

// connidChecks are the checks in progress, by queue pair. They own the timer that ends trials that take too long, and
// the one that looks whether newcomers may be let in.
type connidChecks struct {
	peers   *peers
	byAddr  map[qpAddr]*connidCheck
	order   []*connidCheck // those on trial, the oldest first; some are over
	retried *connidCheck   // of which the packets are handled once more: if they have to wait again, its place stays as it is
	timer   shard.Timer
	tick    checkTick
	waiting []*connidCheck // those that may not be let in yet
	retry   shard.Timer
	again   retryTick
}

type (
	// checkTick is when the oldest trial has taken too long.
	checkTick struct{ shard.Message }
	// retryTick is when to look again whether newcomers may be let in.
	retryTick struct{ shard.Message }
)

// check begins to check the sender of a packet.
func (t *connidChecks) check(r *device.RecvPkt, addr wire.RawAddr) {
	p := t.peers
	ah, err := p.createAH(addr.GID())
	if err != nil {
		t.wait(r, addr)
		return
	}
	if trusted, _ := p.mayAdd(ah, addr.QPN(), false); !trusted {
		_ = p.qp().DestroyAH(ah)
		t.wait(r, addr)
		return
	}
	c := t.begin(addr, p.newPeer(addr, ah, peer.Unlisted, p.book.Now()))
	if t.order = append(t.order, c); len(t.order) == 1 {
		t.startTimer()
	}
	c.link.Move(peer.MoveTry)
	c.link.CheckConnID()
	t.keep(c, r)
}

// wait has a packet wait whose sender may not be let in yet: too many came at its place, or the device has no address
// handle to give, for want of memory or descriptors.
func (t *connidChecks) wait(r *device.RecvPkt, addr wire.RawAddr) {
	c := t.byAddr[qpAddrOf(addr)]
	if c == nil {
		c = t.begin(addr, nil)
		if t.waiting = append(t.waiting, c); !t.retry.Active() {
			env := t.peers.env
			env.Sh.StartTimer(&t.retry, connidEvery, env.Endpoint, &t.again)
		}
	}
	t.keep(c, r)
}

// begin makes the check of a place, of which there is none, with link on trial if it is not nil.
func (t *connidChecks) begin(addr wire.RawAddr, link *peer.Link) *connidCheck {
	c := &connidCheck{at: qpAddrOf(addr), link: link, began: t.peers.env.Sh.Now()}
	var x *route
	if was := t.retried; was != nil && was.at == c.at {
		x, c.listed, c.holds, c.ah = was.route, was.listed, was.holds, was.ah
		t.retried = nil
	}
	if x == nil || x.cur == nil {
		x = t.peers.route(device.UnknownAH, c.at.qpn, c.at.gid)
	}
	if t.byAddr == nil {
		t.byAddr = make(map[qpAddr]*connidCheck)
	}
	t.byAddr[c.at] = c
	t.contest(c, x)
	return c
}

// end ends a check. Its packets are the caller's.
func (t *connidChecks) end(c *connidCheck) {
	delete(t.byAddr, c.at)
	if c.route != nil {
		c.route.uncontest()
	}
	t.letGo(c)
}

// letGo lets the messages from a place come again.
func (t *connidChecks) letGo(c *connidCheck) {
	if !c.holds {
		return
	}
	qp := t.peers.qp()
	_ = qp.HoldBack(c.ah, c.at.qpn, false, 0) // as in hold
	_ = qp.DestroyAH(c.ah)
	c.holds = false
	if l := t.peers.at(c.at.gid, c.at.qpn); l != nil { // its packets were refused, too
		l.HoldBackAgain()
	}
}

// contest has all that comes from a place, by its route if there is one, go by way of the endpoint.
func (t *connidChecks) contest(c *connidCheck, x *route) {
	if c.route != nil && c.route != x {
		c.route.uncontest()
	}
	if c.route = x; x == nil {
		return
	}
	if x.contested = true; x.cur != nil {
		t.peers.routes.uncache(x.cur)
		x.cur.Contest(c.link != nil)
	}
}

// uncontest ends what contest began.
func (x *route) uncontest() {
	if x.contested = false; x.cur != nil {
		x.cur.Uncontest()
	}
}

// take takes a packet from a place at which newcomers wait.
func (t *connidChecks) take(c *connidCheck, r *device.RecvPkt) {
	p := t.peers
	var cur *peer.Link
	x := p.route(r.AH, r.QPN, c.at.gid)
	if x != nil {
		cur = x.cur
	}
	id, named := r.View.ConnID()
	addr := wire.MakeRawAddr(c.at.gid, c.at.qpn, id)
	_, listed := p.book.Handle(addr)
	switch {
	case r.Err != nil && cur == nil:
		p.onNoAddress(r)
	case r.Err != nil:
		p.env.Sh.Call(cur.Peer, r.Arrived())
	case named && cur != nil && id == cur.QKey:
		c.former = p.env.Sh.Now()
		answers := c.asks > 0 && r.View.Type == wire.TypeHandshake
		p.env.Sh.Call(cur.Peer, r.Arrived())
		if answers {
			t.settle(c, false)
		}
	case named && x != nil && x.isFormer(id):
		p.dropFormer(r, id)
	case named && listed:
		p.admit(r, addr)
	case !named && cur != nil && c.link == nil: // newcomers that only wait have no HANDSHAKE of ours, and say who they are
		cur.Contest(false) // else it would send the packet back for ever
		p.onNameless(r, cur)
	case c.bytes > p.env.Config.PeerMemory+waitMost:
		p.dropUntrusted(r, c.at)
	default:
		t.keep(c, r)
	}
}

// keep has a packet wait.
func (t *connidChecks) keep(c *connidCheck, r *device.RecvPkt) {
	r = r.Copy()
	c.pkts, c.heard = append(c.pkts, r), t.peers.env.Sh.Now()
	t.count(c, r, 1)
	if len(c.pkts)%waitPackets == 0 { // again, since the device may have forgotten it
		t.hold(c)
	}
}

// hold has the device refuse all messages from a place, until newcomers there are let in. A peer there that the
// application knows does not wait for that: there PeerMemory and waitMost must do.
func (t *connidChecks) hold(c *connidCheck) {
	p := t.peers
	if c.link == nil && (c.listed || c.route != nil && c.route.cur != nil && c.route.cur.Handle != peer.Unlisted) {
		return // a trial does not last
	}
	if !c.holds {
		ah, err := p.createAH(c.at.gid)
		if err != nil {
			return
		}
		c.ah, c.holds = ah, true
	}
	_ = p.qp().HoldBack(c.ah, c.at.qpn, true, p.env.Config.FirstMsgID) // a card cannot: there TotalMemory must do
}

// count accounts for a packet that waits (1), or does not wait any more (-1).
func (t *connidChecks) count(c *connidCheck, r *device.RecvPkt, sign int64) {
	env, n := t.peers.env, sign*int64(len(r.View.Bytes())+waitCost)
	c.bytes += n
	env.Mem.Strangers += n
	env.Weigh = true
}

// has reports whether a packet waits that says that it is of an endpoint, and the end of that does not.
func (c *connidCheck) has(connid uint32) bool {
	return !slices.ContainsFunc(c.gone, func(g *device.Gone) bool { return g.QKey == connid }) &&
		slices.ContainsFunc(c.pkts, func(r *device.RecvPkt) bool {
			id, ok := r.View.ConnID()
			return ok && id == connid
		})
}

// upto is the msg_id of the latest message that waits, for which there is one at least.
func (c *connidCheck) upto() (last uint32) {
	some := false
	for _, r := range c.pkts {
		if id, ok := r.View.MsgID(); ok && (!some || int32(id-last) > 0) {
			last, some = id, true
		}
	}
	return last
}

// dropUntrusted drops a packet from a place that cannot be held back and hoards.
func (p *peers) dropUntrusted(r *device.RecvPkt, at qpAddr) {
	p.env.Counters.Crowded++
	p.env.Complain(nil, fmt.Errorf("%w: queue pair %d of %s", peer.ErrUntrusted, at.qpn, at.gid))
	r.Release()
}

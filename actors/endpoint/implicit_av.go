package endpoint

import (
	"container/list"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// Peers that are in no address vector, which libfabric keeps in its implicit address vector
// (FI_EFA_IMPLICIT_AV_SIZE). A packet from an unknown queue pair makes an unlisted peer, as far
// as mayAdd permits it. The implicit AV has at most MaxUnlistedPeers of them, in LRU order: for a
// further one an idle peer is evicted and remembered, so that it can resume (evictedPeers). If
// no peer is idle the new one waits (overflow). A packet with another connid than the peer's
// is believed only after a connid check.

// onUnlisted takes a packet from a queue pair at which no peer is known. The packet must
// say who sent it: by the raw address in a REQ, or by its connid and the GID that the
// device reports (§2.2).
func (p *peers) onUnlisted(r *device.RecvPkt) {
	gid := p.routes.gid(r.AH, r.GID)
	if c := p.checks.byAddr[qpAddr{gid, r.QPN}]; c != nil {
		p.checks.take(c, r)
		return
	}
	addr, ok := p.identify(r)
	if !ok {
		addr, ok = p.evicted.sender(r, gid)
	}
	if !ok {
		p.onNoAddress(r)
		return
	}
	if x := p.routes.get(r.AH, r.QPN); x != nil && x.isFormer(addr.ConnID()) {
		p.dropFormer(r, addr.ConnID())
		return
	}
	p.admit(r, addr)
}

// dropFormer drops a packet of a former endpoint at its place, of which our device refuses the next ones: it
// may live, and then it is to learn that it is not received.
func (p *peers) dropFormer(r *device.RecvPkt, connid uint32) {
	p.env.Counters.StaleConnID++
	if r.AH != device.UnknownAH {
		_ = p.qp().Shut(r.AH, r.QPN, connid)
	}
	r.Release()
}

// identify returns the address of a packet's sender; false: the packet does not say it, or
// claims another GID than the device saw.
func (p *peers) identify(r *device.RecvPkt) (wire.RawAddr, bool) {
	id, ok := r.View.ConnID()
	if !ok {
		return wire.RawAddr{}, false
	}
	if raw, ok := r.View.RawAddr(); ok {
		gid := raw.GID()
		if from := p.routes.gid(r.AH, r.GID); from != (device.GID{}) && from != gid {
			return wire.RawAddr{}, false
		}
		return wire.MakeRawAddr(gid, r.QPN, id), true
	}
	if r.AH == device.UnknownAH && r.GID != (device.GID{}) {
		return wire.MakeRawAddr(r.GID, r.QPN, id), true
	}
	return wire.RawAddr{}, false
}

// onNoAddress takes a packet that does not say who sent it. It is of the peer there if only
// the device's address handle is missing.
func (p *peers) onNoAddress(r *device.RecvPkt) {
	if l := p.now(r.AH, r.QPN, r.GID); l != nil && r.Err == nil {
		p.env.Sh.Call(l.Peer, r.Arrived())
		return
	}
	if r.Err != nil {
		p.env.Complain(nil, r.Err)
	}
	p.env.Counters.NoAddress++
	r.Release()
}

// admit makes a peer of a packet's sender, if it may be one, and gives it the packet.
func (p *peers) admit(r *device.RecvPkt, addr wire.RawAddr) {
	if p.closing.state != open {
		r.Release()
		return
	}
	if l := p.find(addr); l != nil { // only the device's address handle was missing
		p.env.Sh.Call(l.Peer, r.Arrived())
		return
	}
	known, gone := p.evicted.lookup(addr)
	if gone {
		p.env.Counters.StaleConnID++
		r.Release()
		return
	}
	handle, listed := p.book.Handle(addr)
	if !listed {
		handle = peer.Unlisted
	}
	ah, err := p.createAH(addr.GID())
	if err != nil {
		p.env.Complain(nil, fmt.Errorf("address handle for %s: %w", p.uri(&addr), err))
		p.checks.wait(r, addr)
		return
	}
	crowded := false
	if !listed {
		var trusted bool
		if trusted, crowded = p.mayAdd(ah, addr.QPN(), known); !trusted {
			_ = p.qp().DestroyAH(ah)
			p.checks.wait(r, addr)
			return
		}
	}
	l := p.create(addr, ah, handle, p.book.Now())
	if listed {
		l.Move(peer.MoveInsert)
		p.setHandle(handle, l)
	} else {
		upto, _ := r.View.MsgID()
		p.addUnlisted(l, !known, !crowded, upto)
	}
	p.env.Sh.Call(l.Peer, r.Arrived())
}

// addUnlisted adds a peer that has sent r to the implicit AV. It is held back if there is no room.
func (p *peers) addUnlisted(l *peer.Link, fresh, room bool, upto uint32) {
	if fresh {
		p.event(Event{Kind: NewPeer, Handle: peer.Unlisted, Addr: l.Addr, Path: l.Path})
	}
	if room {
		l.Move(peer.MoveAdmit)
		p.implicit.add(l)
		return
	}
	l.Move(peer.MoveCrowd)
	p.overflow.add(l, upto)
}

// onOtherConnID takes a packet from a known queue pair with another connid than the
// peer's. It is of a former endpoint there, and dropped, or of a new one, which replaces
// the peer (§4.4). A new connid is believed only in a packet with a raw address, and then if
// its sender turns out to be there (connidCheck), or if the application has inserted the address.
func (p *peers) onOtherConnID(m *peer.Stranger) {
	r := m.Pkt
	id, ok := r.View.ConnID()
	x := p.routes.get(m.Link.AH, m.Link.QPN)
	if x == nil || x.cur == nil { // that was dropped while the packet was on its way here
		p.onUnlisted(r)
		return
	}
	addr := wire.MakeRawAddr(m.Link.Addr.GID(), m.Link.QPN, id)
	if c := p.checks.byAddr[qpAddrOf(addr)]; c != nil {
		p.checks.take(c, r)
		return
	}
	if !ok {
		x.uncontest() // else the peer would send it back for ever
		p.onNameless(r, x.cur)
		return
	}
	if x.isFormer(id) {
		p.dropFormer(r, id)
		return
	}
	if x.cur.QKey == id {
		p.env.Sh.Call(x.cur.Peer, r.Arrived()) // the new one came in meanwhile
		return
	}
	raw, introduced := r.View.RawAddr()
	introduced = introduced && raw.GID() == m.Link.Addr.GID()
	_, listed := p.book.Handle(addr)
	switch {
	case !listed && !introduced:
		p.env.Counters.StaleConnID++
		r.Release()
	case !listed && !x.cur.Buried() && p.closing.state == open:
		p.checks.check(r, addr)
	default:
		p.admit(r, addr)
	}
}

// onNameless takes a packet that does not say who sent it, and that is of l. A second HANDSHAKE is of a newcomer that was on trial.
func (p *peers) onNameless(r *device.RecvPkt, l *peer.Link) {
	if r.View.Type == wire.TypeHandshake && l.Handshaken {
		r.Release()
	} else {
		p.env.Sh.Call(l.Peer, r.Arrived())
	}
}

// Every endpoint that says who it is becomes a peer here, so one queue pair could use up all
// room: it would send each packet with a new connid. Admission is by rate and by share. The
// device has acknowledged the packets of those that may not be let in yet, so they wait (connidChecks).

// A queue pair may have connidBurst new endpoints in a row, then one more each connidEvery.
const (
	connidBurst = 16
	connidEvery = 10 * time.Millisecond
)

// allow counts one more new endpoint; false: there were too many.
func (x *route) allow(now clock.Time) bool {
	if n := now.Sub(x.since) / connidEvery; n >= time.Duration(x.came) {
		x.came, x.since = 0, now
	} else if n > 0 {
		x.came -= uint8(n)
		x.since = x.since.Add(n * connidEvery)
	}
	if x.came >= connidBurst {
		return false
	}
	x.came++
	return true
}

// maxReplaced is how many former endpoints of a queue pair may be here still, since they have
// operations in progress, or messages that no receive has taken.
const maxReplaced = 16

// mayAdd reports whether an unlisted peer may be added, and whether it has to wait then since
// there is no room. A known peer was evicted earlier, so its connid is not a new one.
func (p *peers) mayAdd(ah device.AH, qpn uint16, known bool) (trusted, crowded bool) {
	if x := p.routes.get(ah, qpn); !known && x != nil && !x.allow(p.env.Sh.Now()) {
		return false, false
	}
	p.reap()
	switch {
	case !p.mayReplace(ah, qpn):
	case p.hasRoom(ah):
		return true, false
	default: // above TotalMemory the endpoint throttles all
		trusted, crowded = true, true
	}
	p.probeQuiet() // perhaps no other packet comes that would find the peers that have left
	return trusted, crowded
}

// mayReplace reports whether the former endpoints of a queue pair leave room for one more.
func (p *peers) mayReplace(ah device.AH, qpn uint16) bool {
	left, held := 0, int64(0)
	for _, l := range p.replaced {
		if l.AH == ah && l.QPN == qpn {
			left++
			held += l.Charged()
		}
	}
	return left < maxReplaced && held <= p.env.Config.PeerMemory
}

// hasRoom reports whether there is room for one more unlisted peer of a host. A host has at most
// three times as many entries as are free, so that there is always room for another host's.
func (p *peers) hasRoom(ah device.AH) bool {
	return p.hasFree(ah) || p.evictLRU() && p.hasFree(ah) || p.giveUp(p.implicit.fromHost(ah))
}

// hasFree is hasRoom without eviction.
func (p *peers) hasFree(ah device.AH) bool {
	taken := p.implicit.fromHost(ah)
	for _, l := range p.replaced {
		if l.AH == ah {
			taken++
		}
	}
	return taken < 3*(p.most-p.implicit.size()-len(p.replaced))
}

// giveUp buries an unlisted peer that is away, the first in LRU order, for one of a host that has
// n. Its own host has no fewer.
func (p *peers) giveUp(n int) bool {
	for l := range p.implicit.all() {
		if p.implicit.fromHost(l.AH) >= n && l.GiveUp() {
			p.drop(l)
			return true
		}
	}
	return false
}

// probesPerPeer is how many unlisted peers are looked at when one more peer is made: more than
// one, so that those that have left do not add up.
const probesPerPeer = 4

// probeQuiet finds out which unlisted peers have left: one that was not heard for PeerTimeout is
// probed, also one that has failed, and one whose queue pair turned out to be gone is given up.
func (p *peers) probeQuiet() {
	for range min(probesPerPeer, p.implicit.size()) {
		l := p.implicit.next()
		if !l.Quiet() {
			continue
		}
		switch {
		case l.Err == nil:
			l.Probe()
		case !l.MayReturn():
		case peer.HasLeft(l.Err):
			p.env.Sh.Tell(l.Peer, &peer.Remove{Err: peer.ErrRemoved, Away: true})
		default:
			l.Knock()
		}
	}
}

// implicitAV is the peers that are in no address vector and current at their queue pair, in LRU
// order, that is as they were added or looked at, and how many there are from each host.
type implicitAV struct {
	lru     list.List
	entries map[*peer.Link]*list.Element
	hosts   map[device.AH]int
}

func (b *implicitAV) size() int { return len(b.entries) }

// fromHost is how many there are from a host.
func (b *implicitAV) fromHost(ah device.AH) int { return b.hosts[ah] }

func (b *implicitAV) add(l *peer.Link) {
	if b.entries[l] != nil {
		return
	}
	if b.entries == nil {
		b.entries, b.hosts = make(map[*peer.Link]*list.Element), make(map[device.AH]int)
	}
	b.entries[l] = b.lru.PushBack(l)
	b.hosts[l.AH]++
}

// remove takes a peer out, if it is there.
func (b *implicitAV) remove(l *peer.Link) {
	e := b.entries[l]
	if e == nil {
		return
	}
	b.lru.Remove(e)
	delete(b.entries, l)
	if b.hosts[l.AH]--; b.hosts[l.AH] == 0 {
		delete(b.hosts, l.AH)
	}
}

// next is the one that was not looked after for longest; there must be one.
func (b *implicitAV) next() *peer.Link {
	e := b.lru.Front()
	b.lru.MoveToBack(e)
	return e.Value.(*peer.Link)
}

// all yields the peers in their order.
func (b *implicitAV) all() iter.Seq[*peer.Link] {
	return func(yield func(*peer.Link) bool) {
		for e := b.lru.Front(); e != nil; e = e.Next() {
			if !yield(e.Value.(*peer.Link)) {
				return
			}
		}
	}
}

// overflow is unlisted peers for which there is no room in the implicit AV. The device has
// acknowledged their packets, so these are received; but the peers are held back, where the device
// can do that, and their cost counts as memory of unexpected messages, so that TotalMemory is the
// limit where it cannot. It owns the timer that looks for room.
type overflow struct {
	env   *peer.Env
	peers *peers

	order    list.List
	entries  map[*peer.Link]*list.Element
	timer    shard.Timer
	tick     overflowTick
	tended   clock.Time // when they had a sign of life
	reported bool       // that there are some
	empty    clock.Time // since when there are none, while reported
}

// overflowTick is when to look for room.
type overflowTick struct{ shard.Message }

const (
	overflowEvery = 5 * time.Millisecond
	// overflowQuiet is for how long no peer waits before the event says so.
	overflowQuiet = time.Second
	// unlistedCost is what a peer counts for: memory, and its actor's.
	unlistedCost = 2048
)

// add adds a peer that has sent messages up to upto.
func (c *overflow) add(l *peer.Link, upto uint32) {
	if c.entries == nil {
		c.entries = make(map[*peer.Link]*list.Element)
	}
	c.entries[l] = c.order.PushBack(l)
	c.env.Counters.StrangersHeld++
	c.env.Mem.Strangers += unlistedCost
	c.env.Weigh = true
	l.HoldBackForRoom(upto)
	if !c.reported {
		c.reported, c.tended = true, c.env.Sh.Now()
		c.peers.event(Event{Kind: StrangersCrowded, Handle: peer.Unlisted})
		c.startTimer()
	}
}

// remove takes a peer out, if it is there.
func (c *overflow) remove(l *peer.Link) {
	e := c.entries[l]
	if e == nil {
		return
	}
	c.order.Remove(e)
	delete(c.entries, l)
	c.env.Mem.Strangers -= unlistedCost
	l.HasRoom()
	if len(c.entries) == 0 {
		c.empty = c.env.Sh.Now()
	}
}

// onTick moves peers to the implicit AV as far as there is room, in their order, and evicts those
// that are idle.
func (c *overflow) onTick() {
	now := c.env.Sh.Now()
	if c.peers.closing.state != open {
		return
	}
	if len(c.entries) == 0 && now.Sub(c.empty) >= overflowQuiet {
		c.reported = false
		c.peers.event(Event{Kind: StrangersRelieved, Handle: peer.Unlisted})
		return
	}
	care := now.Sub(c.tended) >= c.env.Config.PeerTimeout/4
	if care {
		c.tended = now
	}
	room := true
	for e := c.order.Front(); e != nil; {
		l := e.Value.(*peer.Link)
		e = e.Next()
		switch {
		case c.peers.evict(l):
		case !room && !care:
		case room && c.peers.hasRoom(l.AH):
			c.remove(l)
			l.Move(peer.MoveRoom)
			c.peers.implicit.add(l)
			l.Probe() // it need not wait for the end of its back-off
		default:
			room = room && c.peers.implicit.size() < c.peers.most // else none can be evicted
			if care {
				l.TendHeldBack()
			}
		}
	}
	c.startTimer()
}

func (c *overflow) startTimer() {
	c.env.Sh.StartTimer(&c.timer, overflowEvery, c.env.Endpoint, &c.tick)
}

// evictedPeers remembers unlisted peers that were evicted while they were idle, by their queue
// pair, so that they can resume. They keep their address handles as long as the device has enough:
// a packet that has come names one that must not be another host's by the time it is handled.
type evictedPeers struct {
	most    int
	byAddr  map[qpAddr]evictedPeer
	order   []eviction // oldest first; some are back
	lastSeq uint64     // turn
}

// eviction is when the peer at a queue pair was evicted.
type eviction struct {
	qpAddr
	seq uint64
}

// evictedPeer is what is remembered of an evicted peer.
type evictedPeer struct {
	peer.Evicted
	ah    device.AH
	hasAH bool
	seq   uint64
}

// qpAddr is where a queue pair is.
type qpAddr struct {
	gid device.GID
	qpn uint16
}

func qpAddrOf(addr wire.RawAddr) qpAddr { return qpAddr{addr.GID(), addr.QPN()} }

// full reports whether there is no room for one more.
func (s *evictedPeers) full() bool { return len(s.byAddr) >= s.most }

func (s *evictedPeers) add(at qpAddr, r evictedPeer) {
	if s.byAddr == nil {
		s.byAddr = make(map[qpAddr]evictedPeer)
	}
	s.lastSeq++
	r.seq = s.lastSeq
	s.byAddr[at] = r
	if s.order = append(s.order, eviction{at, r.seq}); len(s.order) > 2*len(s.byAddr)+64 {
		s.order = slices.DeleteFunc(s.order, func(t eviction) bool { return !s.current(t) })
	}
}

// current reports whether the evicted peer at a queue pair is the one that was evicted then.
func (s *evictedPeers) current(t eviction) bool {
	r, ok := s.byAddr[t.qpAddr]
	return ok && r.seq == t.seq
}

// remove returns what is remembered of the peer at a queue pair, and forgets it.
func (s *evictedPeers) remove(at qpAddr, qp device.QP) (evictedPeer, bool) {
	r, ok := s.byAddr[at]
	if ok {
		delete(s.byAddr, at)
		r.releaseAH(qp)
	}
	return r, ok
}

// releaseAH gives the address handle back.
func (r *evictedPeer) releaseAH(qp device.QP) {
	if r.hasAH {
		r.hasAH = false
		_ = qp.DestroyAH(r.ah) // it was created by us, so this does not fail
	}
}

// releaseAHs gives all address handles back, since the device has no more.
func (s *evictedPeers) releaseAHs(qp device.QP) {
	for _, t := range s.order {
		if r := s.byAddr[t.qpAddr]; s.current(t) && r.hasAH {
			r.releaseAH(qp)
			s.byAddr[t.qpAddr] = r
		}
	}
}

// lookup reports whether addr is of an evicted peer, and whether that is dead.
func (s *evictedPeers) lookup(addr wire.RawAddr) (known, gone bool) {
	r, ok := s.byAddr[qpAddrOf(addr)]
	known = ok && r.QKey == addr.ConnID()
	return known, known && r.Gone
}

// oldest returns the address of the peer that was evicted longest ago; false: there is none. It forgets those that have
// left.
func (s *evictedPeers) oldest(qp device.QP) (wire.RawAddr, bool) {
	for len(s.order) > 0 {
		t := s.order[0]
		s.order = s.order[1:]
		if !s.current(t) {
			continue
		}
		at := t.qpAddr
		if r := s.byAddr[at]; r.Left() {
			r.releaseAH(qp)
			delete(s.byAddr, at)
		} else {
			return wire.MakeRawAddr(at.gid, at.qpn, r.QKey), true
		}
	}
	return wire.RawAddr{}, false
}

// moveToBack puts what oldest returned behind all others.
func (s *evictedPeers) moveToBack(at qpAddr) {
	s.order = append(s.order, eviction{at, s.byAddr[at].seq})
}

// sender returns the address of a packet's sender if that was evicted and the packet does not
// say that it is of another endpoint. Not all packets of libfabric name their sender.
func (s *evictedPeers) sender(r *device.RecvPkt, from device.GID) (wire.RawAddr, bool) {
	x, ok := s.byAddr[qpAddr{from, r.QPN}]
	if !ok || r.Err != nil {
		return wire.RawAddr{}, false
	}
	if id, said := r.View.ConnID(); said && id != x.QKey {
		return wire.RawAddr{}, false
	}
	return wire.MakeRawAddr(from, r.QPN, x.QKey), true
}

// markGone notes that the process of an evicted peer is dead.
func (s *evictedPeers) markGone(g *device.Gone, gid device.GID) {
	at := qpAddr{gid, g.QPN}
	if r, ok := s.byAddr[at]; ok && (g.QKey == 0 || g.QKey == r.QKey) {
		r.Gone = true
		s.byAddr[at] = r
	}
}

// evictedPerPeer is how many evicted peers are remembered for each entry of the implicit AV.
const evictedPerPeer = 16

// lruSample is how many unlisted peers are looked at to evict one, if one of them is idle.
const lruSample = 32

// evictLRU evicts the unlisted peer that was not heard for longest among some that are idle: no
// operation is in progress with it, and no message of its is here. False: none is idle.
func (p *peers) evictLRU() bool {
	if p.evicted.full() {
		if p.probeOldest(); p.evicted.full() {
			return false
		}
	}
	var best *peer.Link
	for n := range p.implicit.size() {
		if n >= lruSample && best != nil {
			break
		}
		if l := p.implicit.next(); l.Idle() && !p.env.Q.Holds(l.Peer) && (best == nil || l.LastHeard() < best.LastHeard()) {
			best = l
		}
	}
	return best != nil && p.evict(best)
}

// evict evicts an unlisted peer if it is idle.
func (p *peers) evict(l *peer.Link) bool {
	if p.evicted.full() {
		return false
	}
	r, ok := l.Evict()
	if !ok {
		return false
	}
	p.removeUnlisted(l)
	l.ForgetHostID()
	p.routes.vacate(l)
	p.evicted.add(qpAddrOf(l.Addr), evictedPeer{Evicted: r, ah: l.AH, hasAH: true})
	p.env.Sh.Stop(l.Peer)
	l.Multipath.Drop(p.qp())
	p.env.Counters.StrangersRested++
	return true
}

// createAH makes an address handle for an unlisted peer. The device may have too few of them.
func (p *peers) createAH(gid device.GID) (device.AH, error) {
	ah, err := p.qp().CreateAH(gid)
	if err != nil && len(p.evicted.byAddr) > 0 {
		p.evicted.releaseAHs(p.qp())
		return p.qp().CreateAH(gid)
	}
	return ah, err
}

// probeOldest makes a peer again of the one that was evicted longest ago and probes it, to find out
// whether it has left.
func (p *peers) probeOldest() {
	addr, ok := p.evicted.oldest(p.qp())
	if !ok {
		return
	}
	ah, err := p.qp().CreateAH(addr.GID())
	if err != nil {
		p.evicted.moveToBack(qpAddrOf(addr))
		return
	}
	l := p.create(addr, ah, peer.Unlisted, p.book.Now())
	l.Move(peer.MoveAdmit)
	p.implicit.add(l)
	l.Probe()
}

// onGone: an endpoint is over of which there was no peer when the device said so, or not that one. There may be one by
// now, made of a packet that the device reported with it. One that is on trial was there: what it sent is received first. That
// says nothing of the peer at its place, which lives if the other one was before it.
func (p *peers) onGone(g *device.Gone) {
	at := qpAddr{p.routes.gid(g.AH, g.GID), g.QPN}
	c := p.checks.byAddr[at]
	l := p.now(g.AH, g.QPN, g.GID)
	if c != nil && c.link != nil && c.link.QKey == g.QKey {
		c.ended = true
		p.checks.settle(c, l == nil || l.Buried())
		if l = p.now(g.AH, g.QPN, g.GID); l == nil || l.QKey != g.QKey {
			l = c.link
		}
		p.env.Sh.Tell(l.Peer, g)
		return
	}
	switch {
	case l != nil && (g.QKey == 0 || g.QKey == l.QKey):
		p.env.Sh.Tell(l.Peer, g)
		if c != nil && c.asks > 0 {
			p.checks.settle(c, true)
		}
	case c != nil && c.has(g.QKey):
		c.gone = append(c.gone, g)
	default:
		p.evicted.markGone(g, at.gid)
	}
}

// onTick ends the trials that have taken too long: our HANDSHAKE has neither arrived nor been refused, and of
// the newcomer and the peer at its queue pair the one that was heard last is there; or it was refused, and the peer,
// which has not failed, has not answered.
func (t *connidChecks) onTick() {
	now := t.peers.env.Sh.Now()
	for len(t.order) > 0 && (t.over(t.order[0]) || now.Sub(t.order[0].began) >= trialMost) {
		c := t.order[0]
		t.order = t.order[1:]
		if !t.over(c) {
			cur := t.peers.at(c.at.gid, c.at.qpn)
			t.settle(c, cur == nil || cur.Err != nil || c.asks == 0 && c.former <= c.heard)
		}
	}
	if len(t.order) > 0 {
		t.startTimer()
	}
}

// over reports whether a check has ended.
func (t *connidChecks) over(c *connidCheck) bool { return t.byAddr[c.at] != c }

func (t *connidChecks) startTimer() {
	env := t.peers.env
	env.Sh.StartTimer(&t.timer, max(trialMost-env.Sh.Now().Sub(t.order[0].began), time.Millisecond), env.Endpoint, &t.tick)
}

// onRetry handles what waits at some places once more, since newcomers may be let in now.
func (t *connidChecks) onRetry() {
	p := t.peers
	for range min(len(t.waiting), letIn) {
		c := t.waiting[0]
		t.waiting = t.waiting[1:]
		if ah, err := p.createAH(c.at.gid); err != nil {
			t.waiting = append(t.waiting, c)
		} else {
			delete(t.byAddr, c.at)
			t.retried = c
			t.replay(c, ah)
			if t.retried != nil {
				t.retried = nil
				t.end(c)
			}
			_ = p.qp().DestroyAH(ah)
		}
	}
	if len(t.waiting) > 0 {
		p.env.Sh.StartTimer(&t.retry, connidEvery, p.env.Endpoint, &t.again)
	}
}

// onResult takes what was found out about a newcomer on trial, or about the peer at its place.
func (t *connidChecks) onResult(m *peer.ConnIDChecked) {
	c := t.byAddr[qpAddrOf(m.Link.Addr)]
	if c == nil || c.link == nil {
		return // it has been told before
	}
	cur := t.peers.now(c.link.AH, c.at.qpn, c.at.gid)
	switch {
	case m.Link == c.link && (m.OK || cur == nil || cur.Err != nil):
		t.settle(c, true)
	case m.Link == c.link:
		c.asks = cur.Ask()
	case m.Link == cur && c.asks > 1:
		c.asks--
		cur.Probe()
	case m.Link == cur && c.asks == 1:
		t.settle(c, !m.OK)
	}
}

// settle ends a trial: the newcomer replaces the peer at its queue pair, or its packets were late. One that has ended
// before it was known to be there is received, and replaces no peer.
func (t *connidChecks) settle(c *connidCheck, ok bool) {
	p, l := t.peers, c.link
	t.end(c)
	x := p.routes.get(l.AH, l.QPN)
	twin := x != nil && x.cur != nil && x.cur.QKey == l.QKey // it was inserted meanwhile
	if ok && !twin && p.closing.state == open {
		p.install(l)
		p.addUnlisted(l, true, p.hasRoom(l.AH), c.upto())
		t.replay(c, l.AH)
		return
	}
	l.Move(peer.MoveReject)
	if c.late = x != nil && !twin; c.late {
		x.addFormer(l.QKey)
	}
	if c.ended = c.ended && c.late && p.closing.state == open; c.ended {
		p.event(Event{Kind: NewPeer, Handle: peer.Unlisted, Addr: l.Addr, Path: l.Path})
	}
	t.replay(c, l.AH)
	p.replaced = append(p.replaced, l)
	if !c.ended {
		p.reap() // its HANDSHAKE may be under way
	}
}

// replay handles the packets of a check that has ended, ah leading to its place. If one has to wait again, the rest waits
// with it.
func (t *connidChecks) replay(c *connidCheck, ah device.AH) {
	p := t.peers
	for i, r := range c.pkts {
		rest := c.bytes
		t.count(c, r, -1)
		if r.AH != device.UnknownAH { // its handle may have been given back meanwhile
			if r.AH = ah; p.routes.gid(ah, device.GID{}) != c.at.gid {
				r.AH, r.GID = device.UnknownAH, c.at.gid
			}
		}
		if id, ok := r.View.ConnID(); c.late && ok && id == c.link.QKey {
			if c.ended {
				p.env.Sh.Call(c.link.Peer, r.Arrived())
			} else {
				p.env.Counters.StaleConnID++
				r.Release()
			}
			continue
		}
		if l := p.now(r.AH, r.QPN, c.at.gid); l != nil {
			p.onOtherConnID(&peer.Stranger{Pkt: r, Link: l})
		} else {
			p.onUnlisted(r)
		}
		if next := t.byAddr[c.at]; next != nil {
			next.pkts, next.bytes, next.heard = c.pkts[i:], rest, c.heard
			if len(next.pkts) >= waitPackets && !next.holds {
				t.hold(next)
			}
			break
		}
	}
	for _, g := range c.gone {
		p.onGone(g)
	}
}

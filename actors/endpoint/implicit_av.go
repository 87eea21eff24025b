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

// onStranger takes a packet from a queue pair at which no peer is known. The packet must
// say who sent it: by the raw address in a REQ, or by its connid and the GID that the
// device reports (§2.2).
func (p *peers) onStranger(r *device.RecvPkt) {
	addr, ok := p.identify(r)
	if !ok {
		addr, ok = p.resting.sender(r, p.routes.from(r))
	}
	if !ok {
		if !p.trials.tries(r, p.routes.from(r)) {
			p.onNameless(r)
		}
		return
	}
	if x := p.routes.get(r.AH, r.QPN); x != nil && x.was(addr.ConnID()) {
		p.env.Counters.StaleConnID++
		r.Release()
		return
	}
	p.admit(r, addr)
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
		if from := p.routes.from(r); from != (device.GID{}) && from != gid {
			return wire.RawAddr{}, false
		}
		return wire.MakeRawAddr(gid, r.QPN, id), true
	}
	if r.AH == device.UnknownAH && r.GID != (device.GID{}) {
		return wire.MakeRawAddr(r.GID, r.QPN, id), true
	}
	return wire.RawAddr{}, false
}

// onNameless takes a packet that does not say who sent it. It is of the peer there if only
// the device's address handle is missing.
func (p *peers) onNameless(r *device.RecvPkt) {
	l := p.at(r.GID, r.QPN)
	if r.AH != device.UnknownAH {
		l = p.routes.find(r.AH, r.QPN) // it came while the packet was on its way here
	}
	if l != nil && r.Err == nil {
		p.env.Sh.Call(l.Peer, r.Arrived())
		return
	}
	if r.Err != nil {
		p.env.Complain(nil, r.Err)
	}
	p.env.Counters.NoAddress++
	r.Release()
}

// admit makes a peer of a stranger, if it may be one, and gives it the packet.
func (p *peers) admit(r *device.RecvPkt, addr wire.RawAddr) {
	if p.closing.state != open {
		r.Release()
		return
	}
	if l := p.find(addr); l != nil { // only the device's address handle was missing
		p.env.Sh.Call(l.Peer, r.Arrived())
		return
	}
	known, gone := p.resting.is(addr)
	if gone {
		p.env.Counters.StaleConnID++
		r.Release()
		return
	}
	handle, listed := p.book.Handle(addr)
	if !listed {
		handle = peer.Unlisted
	}
	ah, err := p.handleFor(addr.GID())
	if err != nil {
		p.env.Log.Warn("address handle for a stranger", "address", p.uri(&addr), "err", err)
		p.env.Complain(nil, fmt.Errorf("address handle for %s: %w", p.uri(&addr), err))
		r.Release()
		return
	}
	crowded := false
	if !listed {
		var trusted bool
		if trusted, crowded = p.mayCome(ah, addr.QPN(), known); !trusted {
			_ = p.qp().DestroyAH(ah)
			p.distrust(r, addr)
			return
		}
	}
	l := p.create(addr, ah, handle, p.book.Now())
	if listed {
		p.setHandle(handle, l)
	} else {
		p.welcome(l, !known, !crowded, r)
	}
	p.env.Sh.Call(l.Peer, r.Arrived())
}

// welcome takes in a stranger that has sent r. It is held back if there is no room.
func (p *peers) welcome(l *peer.Link, fresh, room bool, r *device.RecvPkt) {
	if fresh {
		p.event(Event{Kind: NewPeer, Handle: peer.Unlisted, Addr: l.Addr, Path: l.Path})
	}
	if room {
		p.lobby.enter(l)
		return
	}
	upto, _ := r.View.MsgID()
	p.crowd.enter(l, upto)
}

// onOtherConnID takes a packet from a known queue pair with another connid than the
// peer's. It is of a former endpoint there, and dropped, or of a new one, which replaces
// the peer (§4.4). A new connid is believed only in a packet with a raw address, and then if
// its sender turns out to be there (trial.go), or if the application has inserted the address.
func (p *peers) onOtherConnID(m *peer.Stranger) {
	r, c := m.Pkt, &p.env.Counters
	id, ok := r.View.ConnID()
	x := p.routes.get(m.Link.AH, m.Link.QPN)
	if x == nil || x.cur == nil { // that was dropped while the packet was on its way here
		p.onStranger(r)
		return
	}
	if !ok || x.was(id) {
		c.StaleConnID++
		r.Release()
		return
	}
	if x.cur.QKey == id {
		p.env.Sh.Call(x.cur.Peer, r.Arrived()) // the new one came in meanwhile
		return
	}
	addr := wire.MakeRawAddr(m.Link.Addr.GID(), m.Link.QPN, id)
	raw, introduced := r.View.RawAddr()
	if introduced && raw.GID() != m.Link.Addr.GID() {
		introduced = false
	}
	_, listed := p.book.Handle(addr)
	switch {
	case !listed && !introduced && p.trials.tries(r, addr.GID()):
	case !listed && !introduced:
		c.StaleConnID++
		r.Release()
	case !listed && x.cur.Err == nil && p.closing.state == open:
		p.trials.try(r, addr)
	default:
		p.admit(r, addr)
	}
}

// lobby is the peers at their place that are in no address vector ("strangers"), in the
// order in which they came or were looked after, and how many there are from each host.
type lobby struct {
	order list.List
	where map[*peer.Link]*list.Element
	hosts map[device.AH]int
}

func (b *lobby) size() int { return len(b.where) }

// from is how many there are from a host.
func (b *lobby) from(ah device.AH) int { return b.hosts[ah] }

func (b *lobby) enter(l *peer.Link) {
	if b.where[l] != nil {
		return
	}
	if b.where == nil {
		b.where, b.hosts = make(map[*peer.Link]*list.Element), make(map[device.AH]int)
	}
	b.where[l] = b.order.PushBack(l)
	b.hosts[l.AH]++
}

// leave takes a peer out, if it is there.
func (b *lobby) leave(l *peer.Link) {
	e := b.where[l]
	if e == nil {
		return
	}
	b.order.Remove(e)
	delete(b.where, l)
	if b.hosts[l.AH]--; b.hosts[l.AH] == 0 {
		delete(b.hosts, l.AH)
	}
}

// next is the one that was not looked after for longest; there must be one.
func (b *lobby) next() *peer.Link {
	e := b.order.Front()
	b.order.MoveToBack(e)
	return e.Value.(*peer.Link)
}

// all yields the peers in their order.
func (b *lobby) all() iter.Seq[*peer.Link] {
	return func(yield func(*peer.Link) bool) {
		for e := b.order.Front(); e != nil; e = e.Next() {
			if !yield(e.Value.(*peer.Link)) {
				return
			}
		}
	}
}

// Every endpoint that says who it is becomes a peer here, so one place could use up what
// there is for all: it says with each packet that it is another one. Admission is by rate and
// by share. What is refused was acknowledged by the device, so its sender loses it: the
// limits are far beyond what processes do that start again at the same place.

// A place may have as many new endpoints in a row, then one more each placeEvery.
const (
	placeBurst = 16
	placeEvery = 10 * time.Millisecond
)

// placeLeft is how many former endpoints of a place may be here still, since they have
// operations in progress, or messages that nobody has received.
const placeLeft = 16

// pace is the rate of new endpoints at a place.
type pace struct {
	spent int
	since clock.Time // when spent was counted
}

// take takes one of the endpoints that a place may have; false: there is none left.
func (p *pace) take(now clock.Time) bool {
	if n := int(now.Sub(p.since) / placeEvery); n >= p.spent {
		p.spent, p.since = 0, now
	} else if n > 0 {
		p.spent -= n
		p.since = p.since.Add(time.Duration(n) * placeEvery)
	}
	if p.spent >= placeBurst {
		return false
	}
	p.spent++
	return true
}

// mayCome reports whether a stranger may come, and whether it has to wait then since there is
// no room. One that is known was let go earlier, and invents nothing.
func (p *peers) mayCome(ah device.AH, qpn uint16, known bool) (trusted, crowded bool) {
	if x := p.routes.get(ah, qpn); !known && x != nil && !x.pace.take(p.env.Sh.Now()) {
		return false, false
	}
	p.reap()
	switch {
	case !p.mayFollow(ah, qpn):
	case p.hasRoom(ah):
		return true, false
	default:
		// Where the device holds nobody back by himself the endpoint throttles all at that limit.
		path := &p.env.Paths[p.qp().PathOf(ah)]
		trusted, crowded = !path.HoldsBack || p.env.Mem.Total() <= p.env.Config.Hard(), true
	}
	p.lookAfter() // nobody else may come by who would find those that have left
	return trusted, crowded
}

// mayFollow reports whether those who were at a place before leave room for one more.
func (p *peers) mayFollow(ah device.AH, qpn uint16) bool {
	left, held := 0, int64(0)
	for _, l := range p.replaced {
		if l.AH == ah && l.QPN == qpn {
			left++
			held += l.Held()
		}
	}
	return left < placeLeft && held <= p.env.Config.PeerMemory
}

// hasRoom reports whether one more stranger may come from a host. A host has no more of the
// places than three times those that are free, so that there is always room for another
// host's.
func (p *peers) hasRoom(ah device.AH) bool {
	return p.free(ah) || p.makeRoom(p.lobby.from(ah)) || p.letGo() && p.free(ah)
}

// free is hasRoom as things are.
func (p *peers) free(ah device.AH) bool {
	taken := p.lobby.from(ah)
	for _, l := range p.replaced {
		if l.AH == ah {
			taken++
		}
	}
	return taken < 3*(p.most-p.lobby.size()-len(p.replaced))
}

// makeRoom gives up a stranger that is away, the first in the lobby's order, for one of a host
// that has n. It is of no host that has fewer, and makes room once: it leaves the lobby at
// once, and enters it again if it is back before it hears of that (see returned).
func (p *peers) makeRoom(n int) bool {
	for l := range p.lobby.all() {
		if l.Away && p.lobby.from(l.AH) >= n {
			p.lobby.leave(l)
			p.env.Sh.Tell(l.Peer, &peer.Remove{Err: peer.ErrRemoved, Away: true})
			return true
		}
	}
	return false
}

// returned takes up a stranger that is back.
func (p *peers) returned(l *peer.Link) {
	if x := p.routes.get(l.AH, l.QPN); x != nil && x.cur == l && l.Handle == peer.Unlisted {
		p.lobby.enter(l)
	}
}

// visits is how many strangers are looked after when one more peer is made: more than one,
// so that those who have left do not add up.
const visits = 4

// lookAfter finds out which strangers have left: one that was not heard for PeerTimeout is
// probed, and one whose queue pair turned out to be gone is given up.
func (p *peers) lookAfter() {
	for range min(visits, p.lobby.size()) {
		l := p.lobby.next()
		if !l.Quiet() {
			continue
		}
		if l.Err == nil {
			l.Probe()
		} else if l.Away && peer.HasLeft(l.Err) {
			p.env.Sh.Tell(l.Peer, &peer.Remove{Err: peer.ErrRemoved, Away: true})
		}
	}
}

// crowd is strangers for which there is no room in the lobby. What they have sent was
// acknowledged, so they are peers like others and it is received; but they are held back, where
// the device can do that, and what they cost counts as memory of unexpected messages, so that
// TotalMemory ends it where it cannot. It owns the timer that looks for room.
type crowd struct {
	env   *peer.Env
	peers *peers

	order list.List
	where map[*peer.Link]*list.Element
	timer shard.Timer
	tick  crowdTick
	cared clock.Time // when they had a sign of life
	told  bool       // that there are some
	empty clock.Time // since when there are none, while told
}

// crowdTick is when to look for room.
type crowdTick struct{ shard.Message }

const (
	crowdEvery = 5 * time.Millisecond
	// crowdOver is for how long nobody waits before the event says so.
	crowdOver = time.Second
	// strangerCost is what a peer counts for: memory, and its actor's.
	strangerCost = 2048
)

// enter takes a stranger that has sent messages up to upto.
func (c *crowd) enter(l *peer.Link, upto uint32) {
	if c.where == nil {
		c.where = make(map[*peer.Link]*list.Element)
	}
	c.where[l] = c.order.PushBack(l)
	c.env.Counters.StrangersHeld++
	c.env.Mem.Strangers += strangerCost
	c.env.Weigh = true
	l.Wait(upto)
	if !c.told {
		c.told, c.cared = true, c.env.Sh.Now()
		c.peers.event(Event{Kind: StrangersCrowded, Handle: peer.Unlisted})
		c.later()
	}
}

// leave takes a stranger out, if it is there.
func (c *crowd) leave(l *peer.Link) {
	e := c.where[l]
	if e == nil {
		return
	}
	c.order.Remove(e)
	delete(c.where, l)
	c.env.Mem.Strangers -= strangerCost
	l.Admitted()
	if len(c.where) == 0 {
		c.empty = c.env.Sh.Now()
	}
}

// onTick lets strangers go on that there is room for, in their order, and those that are idle
// until they are heard again.
func (c *crowd) onTick() {
	now := c.env.Sh.Now()
	if c.peers.closing.state != open {
		return
	}
	if len(c.where) == 0 && now.Sub(c.empty) >= crowdOver {
		c.told = false
		c.peers.event(Event{Kind: StrangersRelieved, Handle: peer.Unlisted})
		return
	}
	care := now.Sub(c.cared) >= c.env.Config.PeerTimeout/4
	if care {
		c.cared = now
	}
	room := true
	for e := c.order.Front(); e != nil; {
		l := e.Value.(*peer.Link)
		e = e.Next()
		switch {
		case c.peers.rest(l):
		case !room && !care:
		case room && c.peers.hasRoom(l.AH):
			c.leave(l)
			c.peers.lobby.enter(l)
			l.Probe() // it need not wait for the end of its back-off
		default:
			room = room && c.peers.lobby.size() < c.peers.most // else nobody can go
			if care {
				l.Waiting()
			}
		}
	}
	c.later()
}

func (c *crowd) later() { c.env.Sh.StartTimer(&c.timer, crowdEvery, c.env.Endpoint, &c.tick) }

// resting remembers strangers that were let go while they were idle, by their place, so that
// they go on where they were. They keep their address handles as long as the device has enough:
// a packet that has come names one that must not be another host's by the time it is handled.
type resting struct {
	most    int
	byPlace map[place]rested
	order   []turn // in which they were let go; some are back
	last    uint64 // turn
}

// turn is when the one at a place was let go.
type turn struct {
	place
	at uint64
}

// rested is one of them.
type rested struct {
	peer.Rest
	ah    device.AH
	hasAH bool
	turn  uint64
}

// place is a queue pair.
type place struct {
	gid device.GID
	qpn uint16
}

func placeOf(addr wire.RawAddr) place { return place{addr.GID(), addr.QPN()} }

// full reports whether there is no room for one more.
func (s *resting) full() bool { return len(s.byPlace) >= s.most }

func (s *resting) add(at place, r rested) {
	if s.byPlace == nil {
		s.byPlace = make(map[place]rested)
	}
	s.last++
	r.turn = s.last
	s.byPlace[at] = r
	if s.order = append(s.order, turn{at, r.turn}); len(s.order) > 2*len(s.byPlace)+64 {
		s.order = slices.DeleteFunc(s.order, func(t turn) bool { return !s.holds(t) })
	}
}

// holds reports whether the one at a place is the one that was let go then.
func (s *resting) holds(t turn) bool {
	r, ok := s.byPlace[t.place]
	return ok && r.turn == t.at
}

// take returns what is remembered of who was at a place, and forgets it.
func (s *resting) take(at place, qp device.QP) (rested, bool) {
	r, ok := s.byPlace[at]
	if ok {
		delete(s.byPlace, at)
		r.giveAH(qp)
	}
	return r, ok
}

// giveAH gives the address handle back.
func (r *rested) giveAH(qp device.QP) {
	if r.hasAH {
		r.hasAH = false
		_ = qp.DestroyAH(r.ah) // it was created by us, so this does not fail
	}
}

// giveAHs gives all address handles back, since the device has no more.
func (s *resting) giveAHs(qp device.QP) {
	for _, t := range s.order {
		if r := s.byPlace[t.place]; s.holds(t) && r.hasAH {
			r.giveAH(qp)
			s.byPlace[t.place] = r
		}
	}
}

// is reports whether addr is of one that was let go, and whether that is dead.
func (s *resting) is(addr wire.RawAddr) (known, gone bool) {
	r, ok := s.byPlace[placeOf(addr)]
	known = ok && r.QKey == addr.ConnID()
	return known, known && r.Gone
}

// oldest returns the address of the one that was let go longest ago; false: there is none.
func (s *resting) oldest(qp device.QP) (wire.RawAddr, bool) {
	for len(s.order) > 0 {
		t := s.order[0]
		s.order = s.order[1:]
		if !s.holds(t) {
			continue
		}
		at := t.place
		if r := s.byPlace[at]; r.Gone {
			r.giveAH(qp)
			delete(s.byPlace, at)
		} else {
			return wire.MakeRawAddr(at.gid, at.qpn, r.QKey), true
		}
	}
	return wire.RawAddr{}, false
}

// later puts what oldest returned behind all others.
func (s *resting) later(at place) { s.order = append(s.order, turn{at, s.byPlace[at].turn}) }

// sender returns the address of a packet's sender if that was let go and the packet does not
// say that it is of another one. Not all packets of libfabric say who sends them.
func (s *resting) sender(r *device.RecvPkt, from device.GID) (wire.RawAddr, bool) {
	x, ok := s.byPlace[place{from, r.QPN}]
	if !ok || r.Err != nil {
		return wire.RawAddr{}, false
	}
	if id, said := r.View.ConnID(); said && id != x.QKey {
		return wire.RawAddr{}, false
	}
	return wire.MakeRawAddr(from, r.QPN, x.QKey), true
}

// gone notes that the process of one is dead.
func (s *resting) gone(g *device.Gone, gid device.GID) {
	at := place{gid, g.QPN}
	if r, ok := s.byPlace[at]; ok && (g.QKey == 0 || g.QKey == r.QKey) {
		r.Gone = true
		s.byPlace[at] = r
	}
}

// restMost is how many strangers that were let go are remembered for each that may be here.
const restMost = 16

// sample is how many strangers are looked at for one to let go, if one of them is idle.
const sample = 32

// letGo lets the stranger go that was not heard for longest among some that are idle: nothing
// is in progress with it, and nothing of its is here. False: nobody is.
func (p *peers) letGo() bool {
	if p.resting.full() {
		p.recall()
		return false
	}
	var best *peer.Link
	for n := range p.lobby.size() {
		if n >= sample && best != nil {
			break
		}
		if l := p.lobby.next(); l.Idle() && (best == nil || l.LastHeard() < best.LastHeard()) {
			best = l
		}
	}
	return best != nil && p.rest(best)
}

// rest lets a stranger go if it is idle.
func (p *peers) rest(l *peer.Link) bool {
	if p.resting.full() {
		return false
	}
	r, ok := l.LetGo()
	if !ok {
		return false
	}
	p.leave(l)
	l.ForgetHostID()
	p.routes.rest(l)
	p.resting.add(placeOf(l.Addr), rested{Rest: r, ah: l.AH, hasAH: true})
	p.env.Sh.Stop(l.Peer)
	l.Rails.Drop(p.qp())
	p.env.Counters.StrangersRested++
	return true
}

// handleFor takes an address handle for a stranger. The device may have too few of them.
func (p *peers) handleFor(gid device.GID) (device.AH, error) {
	ah, err := p.qp().CreateAH(gid)
	if err != nil && len(p.resting.byPlace) > 0 {
		p.resting.giveAHs(p.qp())
		return p.qp().CreateAH(gid)
	}
	return ah, err
}

// recall makes a peer again of the one that was let go longest ago and probes it, to find out
// whether it has left.
func (p *peers) recall() {
	addr, ok := p.resting.oldest(p.qp())
	if !ok {
		return
	}
	ah, err := p.qp().CreateAH(addr.GID())
	if err != nil {
		p.resting.later(placeOf(addr))
		return
	}
	l := p.create(addr, ah, peer.Unlisted, p.book.Now())
	p.lobby.enter(l)
	l.Probe()
}

// onGone: a process is dead, or has closed its queue pair, of which there was no peer when the
// device said so. There may be one by now, made of a packet that the device reported with it.
func (p *peers) onGone(g *device.Gone) {
	if l := p.at(g.GID, g.QPN); l != nil {
		p.env.Sh.Tell(l.Peer, g)
		return
	}
	gid := g.GID
	if int(g.AH) < len(p.routes.gids) {
		gid = p.routes.gids[g.AH]
	}
	p.resting.gone(g, gid)
}

// trial is an endpoint that says it has taken the place of a peer, which no other sign of ours
// confirms. Until it is known to be there its packets wait in their receive slots.
type trial struct {
	link *peer.Link
	pkts []*device.RecvPkt

	began  bool   // pkts has a message
	held   bool   // it is held back, from the message after heldAt on
	upto   uint32 // msg_id of the latest message in pkts
	heldAt uint32
}

// trialPackets is how many packets may wait at each place before its sender is held back,
// trialsSpare how many more at all together, and trialsMost at how many places. What is beyond that
// is dropped: who takes another's place is not trusted with more. But all of this was acknowledged,
// so there is room for what has come before the sender is held back, and for the rest of a message.
// Where the device cannot hold one back it is for what comes until HANDSHAKE has arrived.
const (
	trialPackets = 16
	trialsSpare  = 96
	trialsMost   = 8
)

// trials are the endpoints on trial, by the place that each says it has taken.
type trials struct {
	peers *peers
	by    map[place]*trial
}

// try puts the sender of a packet on trial.
func (t *trials) try(r *device.RecvPkt, addr wire.RawAddr) {
	x := t.by[placeOf(addr)]
	if x == nil && len(t.by) < trialsMost {
		x = t.begin(addr)
	}
	if x == nil {
		t.peers.distrust(r, addr)
		return
	}
	t.await(x, r)
}

// tries reports whether a packet that does not introduce its sender is of one on trial: that may
// have our HANDSHAKE before we know, and then it answers, and says no more than its connid. The
// packet waits with the others.
func (t *trials) tries(r *device.RecvPkt, gid device.GID) bool {
	x := t.by[place{gid, r.QPN}]
	if id, ok := r.View.ConnID(); x == nil || !ok || x.link.QKey != id {
		return false
	}
	t.await(x, r)
	return true
}

// await has a packet wait for the end of a trial at its place. A newcomer that has sent trialPackets
// is held back: its device sends again later what is refused, but nobody what is dropped.
func (t *trials) await(x *trial, r *device.RecvPkt) {
	if len(x.pkts) >= trialPackets && !t.hasSpare() {
		t.peers.distrust(r, x.link.Addr)
		return
	}
	x.pkts = append(x.pkts, r)
	if id, ok := r.View.MsgID(); ok && (!x.began || int32(id-x.upto) > 0) {
		x.upto, x.began = id, true
	}
	if len(x.pkts) >= trialPackets && x.began && (!x.held || x.upto != x.heldAt) {
		x.link.Wait(x.upto)
		x.held, x.heldAt = true, x.upto
	}
}

// hasSpare reports whether one more packet may wait at a place that has trialPackets of them.
func (t *trials) hasSpare() bool {
	spare := trialsSpare
	for _, o := range t.by {
		spare -= max(len(o.pkts)-trialPackets, 0)
	}
	return spare > 0
}

func (t *trials) begin(addr wire.RawAddr) *trial {
	p := t.peers
	ah, err := p.handleFor(addr.GID())
	if err != nil {
		return nil
	}
	if trusted, _ := p.mayCome(ah, addr.QPN(), false); !trusted {
		_ = p.qp().DestroyAH(ah)
		return nil
	}
	if t.by == nil {
		t.by = make(map[place]*trial)
	}
	x := &trial{link: p.make(addr, ah, peer.Unlisted, p.book.Now())}
	t.by[placeOf(addr)] = x
	x.link.Try()
	return x
}

// distrust drops a packet for reasons of trust.
func (p *peers) distrust(r *device.RecvPkt, addr wire.RawAddr) {
	p.env.Counters.Crowded++
	p.env.Complain(nil, fmt.Errorf("%w: %s", peer.ErrUntrusted, addr))
	r.Release()
}

// onTried ends a trial: the newcomer replaces the peer at its place, or its packets were late.
func (t *trials) onTried(m *peer.Tried) {
	p, l, at := t.peers, m.Link, placeOf(m.Link.Addr)
	tried := t.by[at]
	delete(t.by, at)
	x := p.routes.get(l.AH, l.QPN)
	if tried.held { // packets of the peer at its place were refused, too
		l.Admitted()
		if x != nil && x.cur != nil {
			x.cur.HoldAgain()
		}
	}
	twin := x != nil && x.cur != nil && x.cur.QKey == l.QKey // it was inserted meanwhile
	late := !m.OK && !twin
	if !m.OK || twin || p.closing.state != open {
		p.env.Sh.Stop(l.Peer)
		_ = p.qp().DestroyAH(l.AH) // it was created by us, so this does not fail
		if x != nil && late {
			x.note(l.QKey)
		}
	} else {
		p.settle(l)
		p.welcome(l, true, p.hasRoom(l.AH), tried.pkts[0])
	}
	for _, r := range tried.pkts {
		if id, _ := r.View.ConnID(); late && id == l.QKey {
			p.env.Counters.StaleConnID++
			r.Release()
			continue
		}
		p.onOtherConnID(&peer.Stranger{Pkt: r, Link: l})
	}
}

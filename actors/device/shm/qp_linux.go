package shm

import (
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
	"github.com/efactor/efactor/runtime/clock"
)

// port is one queue pair: its segment, as receiver, and the segments of others that
// it sends to. It is a nic.Carrier and belongs to the queue pair's shard, except
// for deaths and entered.
type port struct {
	dev    *attachment
	seg    *segment
	self   ident
	gid    device.GID
	rx     receiver
	links  linkTable
	routes []device.GID // by address handle, also those that are no more

	handles map[device.GID]device.AH

	heard      *[maxSenders]senderInfo // by index in the sender table: whose packets arrived
	heardCount int                     // entries of heard
	known      map[ident]knownPeer     // queue pairs whose death is to be reported
	dying      []deadPeer

	windows *ownWindows // nil: nothing ever was
	cut     cutMemory

	reason reason

	note      [noteBytes]byte // scratch of RDMA
	bad       uint64          // places whose words were invalid
	reclaimed uint64          // claims of dead senders that were taken back

	timer int
	timed bool   // the timer is set
	fds   [2]int // the bell, and the timer

	hushed    bool // while armed we have taken our own flag down
	undrained int  // how often we woke, or did not sleep, and did not empty the bell since

	armed    bool
	answered uint32      // control.answered
	entered  atomic.Bool // the watcher is to look at the sender table
	deaths   deaths
}

var _ nic.Carrier = (*port)(nil)

func (a *attachment) newPort(g geometry, c device.QPConfig) (*port, error) {
	s, err := a.directory.create(g, c.QPN, c.QKey)
	if err != nil {
		return nil, err
	}
	timer, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		a.directory.remove(s.fd, segmentName(uint16(s.hdr.qpn)), s.hdr.gen)
		s.close()
		return nil, fmt.Errorf("shm: timer: %w", err)
	}
	p := &port{
		dev: a, seg: s, self: s.hdr.ident(), gid: a.directory.gid, rx: newReceiver(newRing(s.mem, g)),
		heard: new([maxSenders]senderInfo), known: make(map[ident]knownPeer),
		handles: make(map[device.GID]device.AH),
		timer:   timer, fds: [2]int{s.doorbell, timer},
	}
	p.cut.possible = !s.isSealed()
	a.watch.add(p)
	return p, nil
}

// Route implements nic.Carrier. It clears this handle from links that know another
// GID by it.
func (p *port) Route(ah device.AH, gid device.GID) error {
	for int(ah) >= len(p.routes) {
		p.routes = append(p.routes, device.GID{})
	}
	p.handles[gid] = ah
	p.nameSenders(&gid, ah)
	if p.routes[ah] != gid {
		p.routes[ah] = gid
		p.links.each(func(l *link) {
			if l.ah == ah {
				l.ah = device.UnknownAH
			}
		})
	}
	return nil
}

// Unroute implements nic.Carrier.
func (p *port) Unroute(ah device.AH) {
	gid := &p.routes[ah]
	delete(p.handles, *gid)
	p.nameSenders(gid, device.UnknownAH)
}

// Send implements nic.Carrier. To a receiver that is mapped and awake it makes no
// system call.
func (p *port) Send(wr *device.SendWR, _ uint64) device.Status {
	if p.cut.possible {
		return p.sendSafely(wr)
	}
	if p.deaths.any.Load() {
		p.takeDeaths()
	}
	l := p.links.near(wr)
	if l == nil {
		return p.put(wr, flagsOf(wr))
	}
	end := l.send(wr, flagsOf(wr))
	if end == sent {
		return device.StatusOK
	}
	if end == evicted {
		p.disconnect(l)
		return p.put(wr, flagsOf(wr))
	}
	return p.settle(l, end)
}

// put delivers a packet, or a note, to the queue pair that wr names, and makes a link if there is
// none.
func (p *port) put(wr *device.SendWR, flags word) device.Status {
	l, st := p.reach(wr)
	if st != device.StatusOK {
		return st
	}
	end := l.send(wr, flags)
	if end == evicted {
		p.disconnect(l)
		if l, st = p.reach(wr); st != device.StatusOK {
			return st
		}
		end = l.send(wr, flags)
	}
	return p.settle(l, end)
}

// settle is the status of a send that has ended.
func (p *port) settle(l *link, end outcome) device.Status {
	switch end {
	case sent:
	case sentWake:
		if p.armed && p.rx.unpark() {
			p.hushed = true // we are awake: the answer need not wake us
		}
		l.rings()
		ringDoorbell(l.peer.bell)
		l.roused()
	case notReady:
		return device.StatusRNR
	case refused:
		return device.StatusUnknownPeer
	case gone: // it may have taken the packet, so no successor gets it
		return p.lose(l)
	case evicted: // again
		p.disconnect(l)
		return device.StatusUnresponsive
	}
	return device.StatusOK
}

// Doorbell implements nic.Carrier: nothing is held back.
func (p *port) Doorbell() {}

// PostRecv implements nic.Carrier.
func (p *port) PostRecv(slots []int32) {
	if p.cut.possible {
		_ = p.safely(func() { p.post(slots) }, nil) // a queue pair that is cut is found by Poll
		return
	}
	p.post(slots)
}

func (p *port) post(slots []int32) {
	p.rx.postSlots(slots)
	p.rx.flush()
}

// Poll implements nic.Carrier.
func (p *port) Poll(c []device.Completion) int {
	if p.cut.possible {
		return p.pollSafely(c)
	}
	if p.armed || p.deaths.any.Load() || len(p.rx.aside) > 0 || len(p.dying) > 0 {
		return p.poll(c)
	}
	return p.arrivals(c)
}

// arrivals makes completions of what has arrived at head.
func (p *port) arrivals(c []device.Completion) (n int) {
	for n < len(c) {
		w := p.rx.look()
		if p.rx.short(w) {
			if from := p.knownSender(w); from != nil {
				complete(&c[n], w, uint64(w.slot()), from)
				n++
				p.rx.takeShort(w)
				p.rx.pass()
				p.rx.fetch()
				continue
			}
		}
		if p.rx.nothing(w) {
			break
		}
		k, found := p.arriveOther(w, &c[n])
		if n += k; !found {
			break
		}
	}
	return n
}

// knownSender is the queue pair behind a word that a sender wrote, if we have heard it before; else nil.
func (p *port) knownSender(w word) *senderInfo {
	i := w.sender()
	from := &p.heard[i]
	if who := ident(p.rx.senders[i].who.Load()); who != from.who || who == 0 {
		return nil
	}
	return from
}

// arriveOther makes a completion of a packet that is not short, or the first of its sender, and
// returns 1, or 0 as accept does.
func (p *port) arriveOther(w word, c *device.Completion) (n int, found bool) {
	var pk packet
	if !p.rx.next(w, &pk) {
		p.answer()
		return 0, false
	}
	return p.accept(&pk, c), true
}

// complete fills in the completion of a packet without flags.
func complete(c *device.Completion, w word, slot uint64, from *senderInfo) {
	c.ID, c.Op, c.Status, c.HasImm, c.Left = slot, device.OpRecv, device.StatusOK, false, false
	c.AH, c.SrcQPN, c.Imm, c.QKey, c.Len = from.ah, from.who.qpn(), 0, 0, w.length()
	c.SrcGID = device.GID{}
	if from.ah == device.UnknownAH {
		c.SrcGID = from.gid
	}
}

// poll is Poll with everything that is seldom there.
func (p *port) poll(c []device.Completion) (n int) {
	if p.armed {
		p.disarm()
	}
	p.answer()
	if p.deaths.any.Load() {
		p.takeDeaths()
	}
	var pk packet
	for n < len(c) && p.rx.nextAside(&pk) {
		n += p.accept(&pk, &c[n])
	}
	n += p.arrivals(c[n:])
	if len(p.dying) > 0 {
		n += p.buryDead(c[n:])
	}
	return n
}

// accept makes a completion of a packet and returns 1. If it is not a packet,
// accept posts its slot again and returns 0.
func (p *port) accept(pk *packet, c *device.Completion) int {
	w := pk.w
	if w.kind() != ready {
		p.bad++
		p.repost(pk.slot)
		return 0
	}
	from := &p.heard[w.sender()]
	if from.who != pk.who {
		p.hear(w.sender(), pk.who)
	}
	complete(c, w, uint64(pk.slot), from)
	if w&(withImm|written) != 0 {
		return p.acceptFlagged(pk, c)
	}
	return 1
}

// acceptFlagged is accept for a packet with an immediate, or that is a note.
func (p *port) acceptFlagged(pk *packet, c *device.Completion) int {
	if c.HasImm = pk.w&withImm != 0; c.HasImm {
		c.Imm = pk.imm
	}
	if pk.w&written != 0 {
		return p.acceptNote(pk, c)
	}
	return 1
}

func (p *port) repost(slot int32) {
	p.rx.postSlot(slot)
	p.rx.flush()
}

// Arm implements nic.Carrier. A sender that publishes after the last look sees the
// receiver parked and rings; earlier packets are seen by the look.
func (p *port) Arm() (ok bool) {
	return p.safely(func() { ok = p.arm() }, nil) && ok && p.cut.own == p.cut.reported
}

func (p *port) arm() bool {
	p.armed, p.hushed = true, false
	p.rx.park()
	p.answer()
	if p.rx.pending() || p.deaths.any.Load() || len(p.dying) > 0 {
		p.disarm()
		return false
	}
	return true
}

// staleBytes bounds how often the bell is not emptied in a row. A byte in it that is of no wake, such as that of a
// sender that rang late, ends as many sleeps at once.
const staleBytes = 4

// disarm also empties the bell, if a sender has rung or is about to.
func (p *port) disarm() {
	p.armed = false
	rung := !p.rx.unpark() && !p.hushed
	p.hushed = false
	if p.undrained++; rung || p.undrained > staleBytes {
		p.undrained = 0
		drain(p.seg.doorbell)
	}
	if p.timed {
		p.timed = false
		drain(p.timer)
	}
}

// WakeAt implements nic.Carrier.
func (p *port) WakeAt(t clock.Time) bool {
	ns := max(int64(t.Sub(p.dev.cfg.Clock.Now())), 1) // 0 would stop the timer
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(ns)}
	p.timed = true
	return unix.TimerfdSettime(p.timer, 0, &spec, nil) == nil
}

// FDs implements nic.Carrier.
func (p *port) FDs() []int {
	if p.timed {
		return p.fds[:]
	}
	return p.fds[:1]
}

// Close implements nic.Carrier.
func (p *port) Close() error {
	p.dev.watch.drop(p)
	p.links.each(func(l *link) {
		if p.safely(l.unregister, nil) {
			p.disconnect(l)
		}
	})
	_ = p.safely(func() { p.rx.ctl.state.Store(closed) }, nil) // it is the end in any case
	for range 2 {                                              // one of its calls may have failed
		if p.dev.directory.remove(p.seg.fd, segmentName(p.self.qpn()), p.self.gen()) {
			break
		}
	}
	err := p.dev.recede(p.seg.mem)
	p.seg.mem = nil
	p.seg.close() // with the mapping replaced, the lock goes with the descriptor
	_ = unix.Close(p.timer)
	return err
}

// RDMA implements nic.Carrier. The data is copied within the call, so a request is
// bounded by MaxRDMA.
func (p *port) RDMA(wr *device.SendWR, _ uint64) (st device.Status) {
	if !p.cut.possible {
		return p.rdma(wr)
	}
	if !p.safely(func() { st = p.rdma(wr) }, nil) {
		st = device.StatusBadDestQPN
	}
	return st
}

func (p *port) rdma(wr *device.SendWR) device.Status {
	l, st := p.reach(wr)
	if st != device.StatusOK {
		return st
	}
	if l.isRefused(shutOut) {
		return device.StatusUnknownPeer
	}
	if st := p.carry(wr, l); st != device.StatusOK {
		return st
	}
	if wr.Kind == device.WRWrite && wr.HasImm {
		// With no receive posted the data is written once more at the next try: it
		// is still the same, and the other side was not notified.
		putNote(&p.note, max(len(wr.Payload), int(wr.Whole)))
		note := *wr
		note.Header, note.Payload, note.More = p.note[:], nil, nil
		return p.put(&note, written|withImm)
	}
	return device.StatusOK
}

// carry moves the data of a WRRead or WRWrite.
func (p *port) carry(wr *device.SendWR, l *link) device.Status {
	region, g := l.grantOf(wr)
	st, err := p.dev.mappings.carry(wr, region, g)
	if st == device.StatusQPInternal {
		p.reason.why = device.Unsent(err, "shm: memory of queue pair %d is not mapped", wr.QPN)
	}
	return st
}

// acceptNote turns the completion of a packet into that of a write. The slot is free
// again: it holds nothing for the caller.
func (p *port) acceptNote(pk *packet, c *device.Completion) int {
	n, ok := parseNote(p.rx.slotBytes(int(pk.slot))[:pk.w.length()])
	if !ok || !c.HasImm {
		p.bad++
		p.repost(pk.slot)
		return 0
	}
	c.Op, c.Len = device.OpWritten, n
	c.AH, c.SrcGID = 0, p.heard[pk.w.sender()].gid // the handle is found by nic.QP
	return 1
}

// HoldBack implements nic.Holder: senders look at the flag before they claim a receive.
func (p *port) HoldBack(from nic.Source, on bool, turn uint32) {
	p.eachSender(from, func(i int, s *senderEntry) {
		if on {
			p.rx.heldFrom[i].Store(turn)
			s.flags.Or(heldBack)
		} else {
			s.flags.And(^heldBack)
		}
	})
}

// Shut implements nic.Holder in the same way.
func (p *port) Shut(from nic.Source) {
	p.eachSender(from, func(_ int, s *senderEntry) {
		if s.qkey.Load() == from.QKey {
			s.flags.Or(shutOut)
		}
	})
}

// eachSender calls f for the entry of each sender that has that address.
func (p *port) eachSender(from nic.Source, f func(int, *senderEntry)) {
	_ = p.safely(func() {
		for i := range p.rx.senders {
			s := &p.rx.senders[i]
			if who := ident(s.who.Load()); who != 0 && who.qpn() == from.QPN && p.rx.origins[i].load() == from.GID {
				f(i, s)
			}
		}
	}, nil) // a queue pair that is cut is found by Poll
}

// Pulse implements nic.Pulser: it is the answer to former calls, and what the owner has posted. It asks, and
// wakes the owner for that; and it has the lock asked, since the bell may have been inherited.
func (p *port) Pulse(ah device.AH, qpn uint16) (uint32, bool) {
	l := p.links.get(qpn)
	if l == nil || int(ah) >= len(p.routes) || l.gid != p.routes[ah] {
		return 0, false
	}
	var pulse uint32
	ok := p.safely(func() {
		l.ctl.asked.Add(1)
		if l.asleep() {
			l.rings()
			ringDoorbell(l.peer.bell)
			l.roused()
		}
		pulse = l.ctl.answered.Load() + uint32(l.ctl.posted.Load())
	}, nil)
	if !ok {
		return 0, false
	}
	if !l.peer.alive() {
		p.dev.watch.doubt(l.id)
	}
	return pulse, true
}

// reason is why the latest request failed that has one: a queue pair that does not fit this one, or
// a call of ours that failed.
type reason struct{ why error }

// mismatch notes how a queue pair does not fit.
func (r *reason) mismatch(format string, args ...any) device.Status {
	r.why = fmt.Errorf("shm: "+format, args...)
	return device.StatusMismatch
}

// unsent notes a call of ours that failed on the way to a queue pair.
func (r *reason) unsent(qpn uint16, err error) device.Status {
	r.why = device.Unsent(err, "shm: queue pair %d is not reached", qpn)
	return nic.Unsent
}

// Why implements nic.Explainer. It is asked when a request has just ended so.
func (r *reason) Why(device.GID) error { return r.why }

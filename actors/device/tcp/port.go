package tcp

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/sys"
)

// port is one queue pair: its listening socket and all connections. It is a nic.Carrier
// and belongs to the queue pair's shard.
type port struct {
	dev  *attachment
	self address
	qkey uint32
	// timeout is for how long a connection may be silent.
	timeout time.Duration

	inbox   inbox
	place   func(gid *device.GID, qpn uint16, head []byte, size int) (dst []byte, later bool) // nil: all go to slots
	reqs    requests
	remotes map[address]*remote
	routes  []route // by address handle

	conns []connSlot // connections by number
	free  []int32

	ready readyList
	bell  *bell

	dialer   dialer
	acceptor acceptor
	refusals refusals

	warnLog, infoLog rateLimitedLog

	outBytes, outSegs int // most that a lane may have to write: copies, and pieces

	net             network
	running         sync.WaitGroup // goroutines of streams
	ticking, ticked bool
	due             bool // the time of WakeAt came since Arm began
	armed           bool
	skip, idle      int // polls without a look at the network

	vec   [maxIovecs][]byte
	held  [maxIovecs]*nic.Region
	trash [64 << 10]byte
}

// connSlot is one in the table of connections.
type connSlot struct {
	l   *lane
	gen int32
}

// route is the destination of an address handle.
type route struct {
	gid  device.GID
	last *remote // the latest queue pair there
}

const (
	// maxSkip is how many polls pass without a check of the sockets while nothing
	// arrives. A check costs about 0.2 us, which would slow down a shard that polls
	// another device, too. While requests are in progress it is busySkip.
	maxSkip  = 32
	busySkip = 4
)

// spareBytes is room for output that answers no request, such as pongs.
const spareBytes = 4 << 10

var _ nic.Carrier = (*port)(nil)

func (a *attachment) newPort(slots int, c device.QPConfig) (*port, []byte, error) {
	recv := make([]byte, slots*a.stride())
	p := &port{
		dev: a, self: address{gid: a.gid}, qkey: c.QKey, timeout: a.cfg.silence(c.Silence),
		inbox:    newInbox(slots, c.SQDepth, a.stride(), recv),
		remotes:  make(map[address]*remote),
		outBytes: c.SQDepth*(a.cfg.MTU+maxLen) + maxDepth*2*baseLen + spareBytes,
		outSegs:  2*c.SQDepth + 3*maxDepth,

		warnLog: rateLimitedLog{log: a.cfg.Logger, clock: a.cfg.Clock},
		infoLog: rateLimitedLog{log: a.cfg.Logger, clock: a.cfg.Clock},
	}
	p.acceptor = acceptor{p: p}
	p.dialer = dialer{p: p, session: firstSession()}
	p.reqs = requests{list: make([]request, c.SQDepth), inbox: &p.inbox}
	if err := p.open(c.QPN); err != nil {
		p.closeAll()
		return nil, nil, err
	}
	return p, recv, nil
}

func (p *port) open(qpn uint16) (err error) {
	if p.bell, err = newBell(); err != nil {
		return err
	}
	if err = p.net.open(p); err != nil {
		return err
	}
	if p.acceptor.hasGreeting() && !p.dev.cfg.AnyLocalUser {
		p.acceptor.uids = newUIDChecker(p.bell)
	}
	p.self.qpn, err = p.acceptor.listen(qpn)
	return err
}

// Route implements nic.Carrier.
func (p *port) Route(ah device.AH, gid device.GID) error {
	for int(ah) >= len(p.routes) {
		p.routes = append(p.routes, route{})
	}
	if p.routes[ah].gid != gid {
		p.routes[ah] = route{gid: gid}
	}
	return nil
}

// Unroute implements nic.Carrier. Sessions do not depend on address handles.
func (p *port) Unroute(device.AH) {}

// PostRecv implements nic.Carrier.
func (p *port) PostRecv(slots []int32) { p.inbox.post(slots) }

// Doorbell implements nic.Carrier: all output is written, one call per lane.
func (p *port) Doorbell() {
	if len(p.ready.toWrite) > 0 {
		p.ready.writeAll()
	}
}

// Poll implements nic.Carrier.
func (p *port) Poll(c []device.Completion) int {
	if p.armed {
		p.armed, p.skip = false, 0
	}
	p.progress()
	if p.inbox.polled() {
		return 0
	}
	return p.inbox.poll(c)
}

// Arm implements nic.Carrier. Events after the last look at the network make FDs readable.
func (p *port) Arm() bool {
	p.skip, p.due = 0, false
	p.progress()
	p.ready.flushStatuses(math.MaxInt)
	p.Doorbell()
	if p.due || len(p.ready.toRead) > 0 || len(p.ready.toWrite) > 0 || !p.inbox.polled() {
		return false
	}
	p.armed = true
	return true
}

// WakeAt implements nic.Carrier.
func (p *port) WakeAt(t clock.Time) bool {
	return p.net.wakeAfter(t.Sub(p.dev.cfg.Clock.Now()))
}

// FDs implements nic.Carrier.
func (p *port) FDs() []int { return p.net.fds() }

// progress moves bytes: pending output, and if it is time for a check of the
// sockets, input.
func (p *port) progress() {
	if len(p.ready.statuses) > 0 {
		if p.ready.polls++; p.ready.polls > p.ready.soonest {
			p.ready.flushStatuses(p.ready.polls)
		}
	}
	if len(p.ready.toWrite) > 0 {
		p.ready.writeAll()
	}
	if p.skip > 0 {
		if p.skip--; len(p.ready.toRead) == 0 {
			return
		}
	}
	p.net.look()
	if len(p.ready.toRead) > 0 {
		p.idle, p.skip = 0, 0
		p.ready.readAll()
	} else {
		p.idle = min(p.idle+1, maxSkip)
		if p.skip = p.idle; p.reqs.under > 0 {
			p.skip = min(p.skip, busySkip)
		}
	}
	if p.ticked { // what arrived before counts as heard
		p.ticked = false
		p.onTick()
	}
}

// onBell handles news: those of lanes are an answer of the uidChecker, or of a stream.
func (p *port) onBell() {
	n := p.bell.heard()
	p.ticked, p.due = p.ticked || n.tick, p.due || n.wake
	if n.accept {
		p.acceptor.accept()
	}
	for _, l := range n.lanes {
		switch l.state {
		case laneClosed:
		case laneConnecting:
			p.dialer.connected(l)
		case laneCheckingUID:
			l.readable, l.writable = true, true // for later
			if l.uidQuery != nil && l.uidQuery.answered.Load() {
				p.acceptor.onUID(l)
			}
			p.ready.queueRead(l)
		default:
			l.hasRoom()
			l.readable = true
			p.ready.queueRead(l)
		}
	}
}

// A connection is checked this many times within Config.Timeout. Ticks are counted, not
// timed: a process that was stopped, or could not run, does not take that for the
// silence of others.
const (
	ticks     = 8
	pingAfter = 2         // ticks of silence
	lostAfter = ticks - 1 // one may have begun just before the silence
)

// setTick starts or stops the ticks: they run while there are connections.
func (p *port) setTick(on bool) {
	if p.ticking == on {
		return
	}
	p.ticking = on
	if on {
		p.net.setTick(p.timeout / ticks)
	} else {
		p.net.setTick(0)
	}
}

// onTick checks all connections.
func (p *port) onTick() {
	p.acceptor.resume()
	n := 0
	for i := range p.conns {
		if l := p.conns[i].l; l != nil {
			n++
			l.onTick()
		}
	}
	for at, r := range p.remotes {
		if r.dialed != nil || r.accepted != nil {
			continue
		}
		if r.hold == shutOut && len(p.remotes) <= maxShutOut {
			continue // it may come again
		}
		if r.idle++; r.idle > 2*ticks {
			r.forgotten = true
			delete(p.remotes, at)
		}
	}
	if n == 0 && len(p.remotes) == 0 && !p.acceptor.paused {
		p.setTick(false)
	}
}

// Close implements nic.Carrier.
func (p *port) Close() error {
	for _, r := range p.remotes {
		for _, s := range [...]*session{r.dialed, r.accepted} {
			if s != nil {
				s.over = true // later events have no consequences
				s.sayBye(device.StatusOK)
			}
		}
	}
	for i := range p.conns {
		if l := p.conns[i].l; l != nil {
			if l.state == laneUp {
				l.drain()
			}
			p.closeLane(l)
		}
	}
	p.closeAll()
	p.dev.dropPort(p)
	return nil
}

// closeAll closes what open opened. Lanes are closed before.
func (p *port) closeAll() {
	p.running.Wait() // what was written last leaves, within linger
	p.net.close()
	if p.bell != nil {
		p.bell.close()
	}
	if p.acceptor.uids != nil {
		p.acceptor.uids.close()
	}
}

// readyList are the lanes that have something to do.
type readyList struct {
	toWrite []*lane // with output that nothing else makes them write
	toRead  []*lane // with input, according to the network, or the budget was used up
	spare   []*lane // the second buffer of toWrite, while one is iterated

	statuses []*lane // with statuses that may wait, or had some
	polls    int     // counted while there are any
	soonest  int     // of polls: until then all may wait
}

const (
	// maxDelayed is how many statuses of a lane wait. A sender has far more packets under way
	// before it must wait for one.
	maxDelayed = 16
	// delayedPolls is how many polls they wait for something to leave with: about as long
	// as an application takes to answer at once, and less than a system call.
	delayedPolls = 8
)

// queueWrite makes l write its output at the end of the turn.
func (t *readyList) queueWrite(l *lane) {
	if !l.writeQueued && l.writable {
		l.writeQueued = true
		t.toWrite = append(t.toWrite, l)
	}
}

// delayStatus makes l write a status that was added to its output within delayedPolls polls.
func (t *readyList) delayStatus(l *lane) {
	if l.delayed++; l.delayed >= maxDelayed {
		t.queueWrite(l)
		return
	}
	if l.delayed == 1 {
		l.statusDue = t.polls + delayedPolls
	}
	if !l.statusQueued {
		l.statusQueued = true
		if len(t.statuses) == 0 {
			t.soonest = l.statusDue
		}
		t.statuses = append(t.statuses, l)
	}
}

// flushStatuses has those statuses written that are due before poll number now. A lane whose statuses have left with a
// packet meanwhile is taken off the list.
func (t *readyList) flushStatuses(now int) {
	kept := t.statuses[:0]
	for _, l := range t.statuses {
		switch {
		case l.delayed == 0 || l.state != laneUp:
			l.statusQueued = false
		case l.statusDue >= now:
			if len(kept) == 0 || l.statusDue < t.soonest {
				t.soonest = l.statusDue
			}
			kept = append(kept, l)
		default:
			l.statusQueued = false
			t.queueWrite(l)
		}
	}
	clear(t.statuses[len(kept):])
	t.statuses = kept
}

// writeAll writes pending output.
func (t *readyList) writeAll() {
	list := t.toWrite
	t.toWrite, t.spare = t.spare[:0], nil
	for i, l := range list {
		list[i] = nil
		l.writeQueued = false
		l.write()
	}
	t.spare = list[:0]
}

// queueRead lets l be read.
func (t *readyList) queueRead(l *lane) {
	if !l.readQueued {
		l.readQueued = true
		t.toRead = append(t.toRead, l)
	}
}

// readAll reads from ready lanes. Lanes that are not done stay ready.
func (t *readyList) readAll() {
	n := len(t.toRead)
	for i := range n {
		l := t.toRead[i]
		l.readQueued = false
		if l.state != laneClosed {
			l.read()
		}
	}
	k := copy(t.toRead, t.toRead[n:])
	clear(t.toRead[k:])
	t.toRead = t.toRead[:k]
}

// bell is how goroutines that work for a queue pair tell the shard that there is news: an
// event, and what it is about.
type bell struct {
	r, w int // ends of the event

	any   atomic.Bool // there is news; for a shard that looks often
	mu    sync.Mutex
	news  news
	spare []*lane
	over  bool
}

// news is what has happened since the shard last heard.
type news struct {
	lanes              []*lane // which may be closed by then
	tick, wake, accept bool
}

func newBell() (*bell, error) {
	r, w, err := sys.OpenEvent()
	if err != nil {
		return nil, fmt.Errorf("tcp: event: %w", err)
	}
	return &bell{r: r, w: w}, nil
}

// ring says that there is news for a lane. Any goroutine may call it.
func (b *bell) ring(l *lane) { b.note(func(n *news) { n.lanes = append(n.lanes, l) }) }

// note adds to the news. Any goroutine may call it.
func (b *bell) note(add func(*news)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return
	}
	add(&b.news)
	if !b.any.Load() {
		b.any.Store(true)
		sys.SignalEvent(b.w)
	}
}

// heard takes the news. It is the shard's until it calls heard again.
func (b *bell) heard() news {
	b.mu.Lock()
	defer b.mu.Unlock()
	sys.DrainEvent(b.r)
	n := b.news
	b.any.Store(false)
	clear(b.spare)
	b.news, b.spare = news{lanes: b.spare[:0]}, n.lanes
	return n
}

func (b *bell) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	b.news = news{}
	_ = sys.CloseEvent(b.r)
	if b.w != b.r {
		_ = sys.CloseEvent(b.w)
	}
}

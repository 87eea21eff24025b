package tcp

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
	"github.com/efactor/efactor/runtime/clock"
)

// port is one queue pair: its listening socket and all connections. It is a nic.Carrier
// and belongs to the queue pair's shard.
type port struct {
	dev  *attachment
	self address
	qkey uint32

	inbox   inbox
	reqs    requests
	remotes map[address]*remote
	routes  []route // by address handle

	conns []place // connections by number
	free  []int32

	turns turns
	bell  *bell

	dialer   dialer
	door     door
	refusals refusals

	complaints, notes complaints

	outBytes, outSegs int // most that a lane may have to write: copies, and pieces

	watcher         watcher
	tick, wake      int
	fds             []int
	ticking, ticked bool
	due             bool // wake went off since Arm began
	armed           bool
	skip, idle      int // polls without a look at ep

	events [maxEvents]unix.EpollEvent
	vec    [maxIovecs][]byte
	held   [maxIovecs]*nic.Region
	trash  [64 << 10]byte
}

// place is one in the table of connections.
type place struct {
	l   *lane
	gen int32
}

// route is the destination of an address handle.
type route struct {
	gid  device.GID
	last *remote // the latest queue pair there
}

// Numbers in epoll's data that stand for no connection.
const (
	listenerID = -1 - iota
	tickID
	wakeID
	bellID
)

const (
	maxEvents = 64
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
		dev: a, self: address{gid: a.gid}, qkey: c.QKey,
		inbox:   newInbox(slots, c.SQDepth, a.stride(), recv),
		remotes: make(map[address]*remote), watcher: watcher{ep: -1}, tick: -1, wake: -1,
		outBytes: c.SQDepth*(a.cfg.MTU+maxLen) + maxDepth*2*baseLen + spareBytes,
		outSegs:  2*c.SQDepth + 3*maxDepth,

		complaints: complaints{log: a.cfg.Logger, clock: a.cfg.Clock},
		notes:      complaints{log: a.cfg.Logger, clock: a.cfg.Clock},
	}
	p.door = door{p: p, listener: -1}
	p.dialer = dialer{p: p, session: firstSession()}
	p.reqs = requests{list: make([]request, c.SQDepth), inbox: &p.inbox}
	if err := p.open(c.QPN); err != nil {
		p.closeFDs()
		return nil, nil, err
	}
	p.fds = []int{p.watcher.ep}
	return p, recv, nil
}

func (p *port) open(qpn uint16) (err error) {
	if p.watcher.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("tcp: epoll: %w", err)
	}
	for _, t := range []struct {
		fd *int
		id int32
	}{{&p.tick, tickID}, {&p.wake, wakeID}} {
		if *t.fd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
			return fmt.Errorf("tcp: timer: %w", err)
		}
		if err = p.watcher.add(*t.fd, t.id); err != nil {
			return err
		}
	}
	if p.bell, err = newBell(); err != nil {
		return err
	}
	if err = p.watcher.add(p.bell.fd, bellID); err != nil {
		return err
	}
	if p.door.greets() && !p.dev.cfg.AnyLocalUser {
		p.door.usher = newUsher(p.bell)
	}
	p.self.qpn, err = p.door.listen(qpn)
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

// Doorbell implements nic.Carrier: all output is written, one call per lane.
func (p *port) Doorbell() {
	if len(p.turns.dirty) > 0 {
		p.turns.clean()
	}
}

// PostRecv implements nic.Carrier.
func (p *port) PostRecv(slots []int32) { p.inbox.post(slots) }

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

// Arm implements nic.Carrier. Events after the last check of ep make it readable.
func (p *port) Arm() bool {
	p.skip, p.due = 0, false
	p.progress()
	p.turns.pay()
	p.Doorbell()
	if p.due || len(p.turns.ready) > 0 || len(p.turns.dirty) > 0 || !p.inbox.polled() {
		return false
	}
	p.armed = true
	return true
}

// WakeAt implements nic.Carrier.
func (p *port) WakeAt(t clock.Time) bool {
	ns := max(int64(t.Sub(p.dev.cfg.Clock.Now())), 1) // 0 would stop the timer
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(ns)}
	return unix.TimerfdSettime(p.wake, 0, &spec, nil) == nil
}

// FDs implements nic.Carrier.
func (p *port) FDs() []int { return p.fds }

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
	p.closeFDs()
	p.dev.dropPort(p)
	return nil
}

func (p *port) closeFDs() {
	for _, fd := range [...]int{p.door.listener, p.tick, p.wake, p.watcher.ep} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	if p.bell != nil {
		p.bell.close()
	}
	if p.door.usher != nil {
		p.door.usher.close()
	}
}

// setTick starts or stops the ticks: they run while there are connections.
func (p *port) setTick(on bool) {
	if p.ticking == on {
		return
	}
	p.ticking = on
	var ts unix.Timespec
	if on {
		ts = unix.NsecToTimespec(int64(p.dev.cfg.Timeout) / ticks)
	}
	_ = unix.TimerfdSettime(p.tick, 0, &unix.ItimerSpec{Interval: ts, Value: ts}, nil)
}

// tune sets the options that all sockets have.
func (p *port) tune(fd int) {
	ms := max(int(p.dev.cfg.Timeout/time.Millisecond), 1)
	secs := max(ms/1000, 1)
	for _, o := range [...]struct{ level, name, value int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, ms}, // RFC 5482
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},       // RFC 9293, 3.8.4
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, max(secs/2, 1)},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, max(secs/6, 1)},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
	} {
		_ = unix.SetsockoptInt(fd, o.level, o.name, o.value) // without it, the ticks notice
	}
}

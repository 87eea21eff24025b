package tcp

import (
	"sync"

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
		dev: a, self: address{gid: a.gid}, qkey: c.QKey,
		inbox:    newInbox(slots, c.SQDepth, a.stride(), recv),
		remotes:  make(map[address]*remote),
		outBytes: c.SQDepth*(a.cfg.MTU+maxLen) + maxDepth*2*baseLen + spareBytes,
		outSegs:  2*c.SQDepth + 3*maxDepth,

		complaints: complaints{log: a.cfg.Logger, clock: a.cfg.Clock},
		notes:      complaints{log: a.cfg.Logger, clock: a.cfg.Clock},
	}
	p.door = door{p: p}
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

// Arm implements nic.Carrier. Events after the last look at the network make FDs readable.
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
	return p.net.wakeAfter(t.Sub(p.dev.cfg.Clock.Now()))
}

// FDs implements nic.Carrier.
func (p *port) FDs() []int { return p.net.fds() }

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
	if on {
		p.net.setTick(p.dev.cfg.Timeout / ticks)
	} else {
		p.net.setTick(0)
	}
}

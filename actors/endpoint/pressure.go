package endpoint

import (
	"time"

	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/shard"
)

// pressure throttles the senders while the endpoint holds more memory for unexpected
// messages than it may (TotalMemory), or has no operations left for what they send. It owns whether it does, a timer that lets some packets
// in meanwhile, and one that gives peers a sign of life: those that get nothing through would
// take us for dead. The endpoint calls check at the end of each turn.
//
// Among what is let in are control packets, and messages, since one of them may be what the
// application waits for. Above settings.InForce.Hard messages are held back altogether: a
// device that can refuses them alone (package peer), another, as EFA is, refuses everything.
type pressure struct {
	env     *peer.Env
	peers   *peers
	starved *starved
	event   func(Event)
	span    uint64 // the endpoint's, in env.Trail

	off        bool // the endpoint keeps nothing: receives are posted one by one
	on         bool
	perSender  bool // every device can hold one sender back
	timer      shard.Timer
	trickleM   trickleMsg
	keepalive  shard.Timer
	keepaliveM keepaliveMsg
}

type trickleMsg struct{ shard.Message }

type keepaliveMsg struct{ shard.Message }

// Under pressure packets are let in at this rate, enough for control packets to flow.
const (
	tricklePackets = 8
	trickleEvery   = time.Millisecond
)

// begin looks at the devices.
func (p *pressure) begin() {
	p.perSender = true
	for i := range p.env.Paths {
		p.perSender = p.perSender && p.env.Paths[i].HoldsBack
	}
}

// check begins to throttle above the limit, and ends it at three quarters of the limit.
func (p *pressure) check() {
	if p.off || p.calm() {
		return
	}
	p.starved.retry()
	held, limit, starved := p.env.Mem.Total(), p.env.Config.TotalMemory, len(p.starved.pkts) > 0
	switch {
	case !p.on && (held > limit || starved):
		p.on = true
		p.env.Q.Throttle(true)
		p.startTrickle()
		p.env.Trail.Put(p.span, trail.Pressure, 0, uint64(held), 0)
		p.event(Event{Kind: MemoryPressure})
	case p.on && held <= limit-limit/4 && !starved:
		p.on = false
		p.env.Q.Throttle(false)
		p.env.Sh.StopTimer(&p.timer)
		p.env.Trail.Put(p.span, trail.Relieved, 0, uint64(held), 0)
		p.event(Event{Kind: MemoryRelieved})
	}
	if !starved {
		p.env.HeldBack.Relieve()
	}
	if p.holding() && !p.keepalive.Active() {
		p.startKeepalive()
	}
}

// calm reports whether check has nothing to do.
func (p *pressure) calm() bool {
	return p.env.Mem.Total() <= p.env.Config.TotalMemory && !p.holding() && p.starved.empty()
}

// holding reports whether peers may get nothing through.
func (p *pressure) holding() bool { return p.on || p.env.HeldBack.Len() > 0 }

func (p *pressure) onTick() {
	if p.check(); !p.on {
		return
	}
	if p.perSender || p.env.Mem.Total() <= p.env.Config.Hard() {
		p.env.Q.Trickle(tricklePackets)
	}
	p.startTrickle()
}

func (p *pressure) startTrickle() {
	p.env.Sh.StartTimer(&p.timer, trickleEvery, p.env.Endpoint, &p.trickleM)
}

// onKeepalive gives peers a sign of life.
func (p *pressure) onKeepalive() {
	if !p.holding() {
		return
	}
	if p.on {
		p.peers.probeAll()
	}
	p.env.HeldBack.Tend()
	p.startKeepalive()
}

func (p *pressure) startKeepalive() {
	p.env.Sh.StartTimer(&p.keepalive, p.env.Config.PeerTimeout/4, p.env.Endpoint, &p.keepaliveM)
}

func (p *pressure) stop() {
	p.env.Sh.StopTimer(&p.timer)
	p.env.Sh.StopTimer(&p.keepalive)
}

package endpoint

import (
	"time"

	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/shard"
)

// pressure holds senders back while the endpoint holds more memory for unexpected messages
// than it may. It owns whether it does, and two timers. The endpoint calls check at the end
// of each turn.
//
//   - A device that can refuses what a peer begins from when that peer, or all together,
//     are over a limit (peer/hoard.go). Answers get through.
//   - Another, as EFA is, posts receives again slowly while all together are over
//     TotalMemory, so that all packets meet RNR. Control packets are among those that are
//     let in, and so are messages, up to a quarter more; then nothing is let in.
//
// Peers that get nothing through hear of us now and then, or they would take us for dead.
type pressure struct {
	env   *peer.Env
	peers *peers
	event func(Event)
	span  uint64 // the endpoint's, in env.Trail

	on        bool
	throttled bool
	bound     int64 // above it the device is throttled
	timer     shard.Timer
	tick      trickleMsg
	care      shard.Timer
	cared     careMsg
}

type trickleMsg struct{ shard.Message }

type careMsg struct{ shard.Message }

// While throttled packets are let in at this rate, enough for control packets to flow.
const (
	tricklePackets = 8
	trickleEvery   = time.Millisecond
)

// begin computes the bound: a quarter more than the limit where senders are held back one
// by one, since packets of others may be under way then.
func (p *pressure) begin() {
	limit := p.env.Config.TotalMemory
	p.bound = limit
	for i := range p.env.Paths {
		if !p.env.Paths[i].HoldsBack {
			return
		}
	}
	p.bound += limit / 4
}

// check begins to hold senders back above the limits, and ends it at three quarters of them.
func (p *pressure) check() {
	held, limit := p.env.Mem.Held, p.env.Config.TotalMemory
	if held <= limit && !p.on && !p.throttled && p.env.Full.Len() == 0 {
		return
	}
	switch {
	case !p.on && held > limit:
		p.on = true
		p.env.Trail.Put(p.span, trail.Pressure, 0, uint64(held), 0)
		p.event(Event{Kind: MemoryPressure})
	case p.on && held <= limit-limit/4:
		p.on = false
		p.env.Trail.Put(p.span, trail.Relieved, 0, uint64(held), 0)
		p.event(Event{Kind: MemoryRelieved})
	}
	switch {
	case !p.throttled && held > p.bound:
		p.throttled = true
		p.env.Q.Throttle(true)
		p.start()
	case p.throttled && held <= p.bound-p.bound/4:
		p.throttled = false
		p.env.Q.Throttle(false)
		p.env.Sh.StopTimer(&p.timer)
	}
	if p.env.Full.Len() > 0 {
		p.env.Full.Relieve()
	}
	if p.holding() && !p.care.Active() {
		p.careLater()
	}
}

// holding reports whether peers may get nothing through.
func (p *pressure) holding() bool { return p.throttled || p.env.Full.Len() > 0 }

func (p *pressure) onTick() {
	if p.check(); !p.throttled {
		return
	}
	if p.env.Mem.Held <= p.bound+p.bound/4 {
		p.env.Q.Trickle(tricklePackets)
	}
	p.start()
}

func (p *pressure) start() { p.env.Sh.StartTimer(&p.timer, trickleEvery, p.env.Endpoint, &p.tick) }

// onCare gives peers a sign of life.
func (p *pressure) onCare() {
	if !p.holding() {
		return
	}
	if p.throttled {
		p.peers.greet()
	} else {
		p.env.Full.Tend()
	}
	p.careLater()
}

func (p *pressure) careLater() {
	p.env.Sh.StartTimer(&p.care, p.env.Config.PeerTimeout/4, p.env.Endpoint, &p.cared)
}

func (p *pressure) stop() {
	p.env.Sh.StopTimer(&p.timer)
	p.env.Sh.StopTimer(&p.care)
}

package endpoint

import (
	"time"

	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/shard"
)

// pressure throttles the senders while the endpoint holds more memory for unexpected
// messages than it may (peer.Config.TotalMemory). It owns whether it does, and a timer that
// lets some packets in meanwhile. The endpoint calls check at the end of each turn.
type pressure struct {
	env   *peer.Env
	event func(Event)
	span  uint64 // the endpoint's, in env.Trail

	on    bool
	timer shard.Timer
	tick  trickleMsg
}

type trickleMsg struct{ shard.Message }

// Under pressure packets are let in at this rate, enough for control packets to flow.
const (
	tricklePackets = 8
	trickleEvery   = time.Millisecond
)

// check begins to throttle above the limit, and ends it at three quarters of the limit.
func (p *pressure) check() {
	held, limit := p.env.Mem.Held, p.env.Config.TotalMemory
	switch {
	case !p.on && held > limit:
		p.on = true
		p.env.Q.Throttle(true)
		p.start()
		p.env.Trail.Put(p.span, trail.Pressure, 0, uint64(held), 0)
		p.event(Event{Kind: MemoryPressure})
	case p.on && held <= limit-limit/4:
		p.on = false
		p.env.Q.Throttle(false)
		p.stop()
		p.env.Trail.Put(p.span, trail.Relieved, 0, uint64(held), 0)
		p.event(Event{Kind: MemoryRelieved})
	}
}

func (p *pressure) onTick() {
	if p.check(); p.on {
		p.env.Q.Trickle(tricklePackets)
		p.start()
	}
}

func (p *pressure) start() { p.env.Sh.StartTimer(&p.timer, trickleEvery, p.env.Endpoint, &p.tick) }

func (p *pressure) stop() { p.env.Sh.StopTimer(&p.timer) }

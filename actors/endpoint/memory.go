package endpoint

import (
	"time"

	"github.com/efactor/efactor/actors/trail"
)

// While memory for unexpected messages is used up, packets are let in at this
// rate: enough for control packets to flow.
const (
	tricklePackets = 8
	trickleEvery   = time.Millisecond
)

// checkMemory throttles the senders when the endpoint holds as much as it may of
// what nobody asked for, and lets them go at three quarters of that.
func (e *Endpoint) checkMemory() {
	held, limit := e.env.Mem.Held, e.cfg.Peer.TotalMemory
	switch {
	case !e.pressed && held > limit:
		e.pressed = true
		e.queue.Throttle(true)
		e.cfg.Shard.StartTimer(&e.trickle, trickleEvery, e.ref, &e.trickleM)
		e.env.Trail.Put(e.span, trail.Pressure, 0, uint64(held), 0)
		e.event(Event{Kind: MemoryPressure})
	case e.pressed && held <= limit-limit/4:
		e.pressed = false
		e.queue.Throttle(false)
		e.cfg.Shard.StopTimer(&e.trickle)
		e.env.Trail.Put(e.span, trail.Relieved, 0, uint64(held), 0)
		e.event(Event{Kind: MemoryRelieved})
	}
}

func (e *Endpoint) onTrickle() {
	if e.checkMemory(); e.pressed {
		e.queue.Trickle(tricklePackets)
		e.cfg.Shard.StartTimer(&e.trickle, trickleEvery, e.ref, &e.trickleM)
	}
}

func (e *Endpoint) event(ev Event) {
	if e.cfg.OnEvent != nil {
		e.cfg.OnEvent(ev)
	}
}

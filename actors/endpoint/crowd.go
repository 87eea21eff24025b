package endpoint

import (
	"container/list"
	"time"

	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
)

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

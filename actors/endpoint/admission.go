package endpoint

import (
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/runtime/clock"
)

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

package efatest_test

import (
	"time"

	"github.com/efactor/efactor/internal/model"
)

// class selects the receives of a strict receiver that take a message: those for
// its tag's class, or all for untagged ones; if from is not Any, for its sender
// alone.
type class struct {
	tagged bool
	tag    uint64 // of the class, or the whole one if it is exact
	from   int
}

// drawStrict gives a receiver as many receives as there are messages, so that in
// any order of arrival all of both end: every receive of a class takes every
// message of the class and no other.
//
// If there is room for all at once they may be posted in any order. Otherwise
// they stand in the order of the messages, and a class has one sender, so that
// each receive gets the message that stands in its place: then the oldest message
// that has not ended always finds its receive posted.
func (p *plan) drawStrict(d draw, at int) {
	np := p.nodes[at]
	var mine []*message
	for _, m := range p.msgs {
		if m.To == at {
			mine = append(mine, m)
		}
	}
	roomy := np.cfg.RxDepth == 0 && np.recv == posted && d.chance(.6)
	of := p.classes(d, mine, roomy)
	largest := make(map[class]int)
	for _, m := range mine {
		largest[of(m)] = max(largest[of(m)], m.Len)
	}
	for _, m := range mine {
		c := of(m)
		r := &receive{size: m.Len, pieces: 1}
		r.Tagged, r.Source = c.tagged, c.from
		if c.tagged {
			r.Tag = c.tag
			if c.tag>>tagShift%2 == 1 && c.tag&tagNamed == 0 { // an ID follows
				r.Tag |= d.Uint64() & tagMask
				r.Ignore = tagMask
			}
		}
		if d.chance(.5) {
			r.size = largest[c]
		}
		p.dress(d, at, r)
		np.recvs = append(np.recvs, r)
	}
	if roomy {
		np.recvQ = max(len(np.recvs), 1)
		if d.chance(.5) {
			d.Shuffle(len(np.recvs), func(i, j int) { np.recvs[i], np.recvs[j] = np.recvs[j], np.recvs[i] })
		}
	}
	np.bystand = d.IntN(3)
}

// classes decides which classes are directed. A class that is not has messages of
// several senders only if mixed is set.
func (p *plan) classes(d draw, mine []*message, mixed bool) func(*message) class {
	base := func(m *message) class {
		c := class{tagged: m.Tagged, from: model.Any}
		if m.Tagged {
			if c.tag = m.Tag &^ tagMask; c.tag == tagBig {
				c.tag = m.Tag
			}
		}
		return c
	}
	directed := make(map[class]bool)
	sender := make(map[class]int)
	for _, m := range mine {
		c := base(m)
		if first, known := sender[c]; !known {
			sender[c], directed[c] = m.From, d.chance(.4)
		} else if first != m.From && !mixed {
			directed[c] = true
		}
	}
	return func(m *message) class {
		c := base(m)
		if directed[c] {
			c.from = m.From
		}
		return c
	}
}

// drawLoose gives a receiver receives of any kind. Receives for everything take the
// remaining messages.
func (p *plan) drawLoose(d draw, at int) {
	np := p.nodes[at]
	np.recv = posted
	np.recvQ += 2 // none waits for room, since none need end before the last
	var mine []*message
	for _, m := range p.msgs {
		if m.To == at {
			mine = append(mine, m)
		}
	}
	if len(mine) == 0 {
		return
	}
	for range d.IntN(len(mine) + 1) {
		like := mine[d.IntN(len(mine))] // so that some message may match
		r := &receive{size: max(d.log(4, 2*max(like.Len, 4)), 8), pieces: 1}
		r.Tagged, r.Source = like.Tagged, model.Any
		if d.chance(.3) {
			r.Source = like.From
		}
		if r.Tagged {
			r.Tag = like.Tag
			r.Ignore = pick(d, 0, tagMask, ^uint64(0), d.Uint64(), 7)
		}
		p.dress(d, at, r)
		if p.flavor == fickle && d.chance(.3) {
			r.timeout = d.upTo(200*time.Microsecond) + 1
		}
		np.recvs = append(np.recvs, r)
	}
	np.recvQ += len(np.recvs)
}

// dress draws what does not decide about matching.
func (p *plan) dress(d draw, at int, r *receive) {
	if d.chance(.1) && r.size > 8 {
		r.size = 8 + d.IntN(r.size-8) // cut off
	}
	r.mem = p.drawMemory(d, at, at)
	if d.chance(.15) {
		r.probe = pick(d, peek, claim, claim, discard)
	}
	if d.chance(.1) {
		r.pieces = 2 + d.IntN(3)
	}
	if d.chance(.1) {
		r.pause = d.upTo(50 * time.Microsecond)
	}
}

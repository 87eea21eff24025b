package efatest_test

import (
	"math/rand/v2"
	"time"

	"github.com/efactor/efactor/api/efatest/internal/model"
)

// classOf says which receives of a strict receiver take a message: those of its
// tag's class, or all untagged ones; directed, then also of its sender.
type class struct {
	tagged   bool
	tag      uint64 // of the class, or the whole one if it is exact
	directed bool
	from     int
}

// drawStrict gives a receiver as many receives as there are messages, so that
// whatever the order of arrival all of both end: every receive of a class takes
// every message of the class and no other. They stand in the order of the
// messages, which with blocking calls and few credits is what keeps everybody
// going.
func (p *plan) drawStrict(d draw, at int) {
	np := p.nodes[at]
	directed := make(map[uint64]bool) // by class
	directedUntagged := d.chance(.4)
	largest := make(map[class]int)
	classOf := func(m *message) class {
		c := class{tagged: m.Tagged, from: model.Any}
		if c.directed = directedUntagged; m.Tagged {
			c.tag = m.Tag &^ tagMask
			if c.tag == tagBig {
				c.tag = m.Tag
			}
			want, known := directed[c.tag]
			if !known {
				want = d.chance(.4)
				directed[c.tag] = want
			}
			c.directed = want
		}
		if c.directed {
			c.from = m.From
		}
		return c
	}
	var mine []*message
	for _, m := range p.msgs {
		if m.To == at {
			mine = append(mine, m)
			c := classOf(m)
			largest[c] = max(largest[c], m.Len)
		}
	}
	for _, m := range mine {
		c := classOf(m)
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
		p.dress(d, r)
		np.recvs = append(np.recvs, r)
	}
	if np.cfg.RxDepth == 0 && np.recv == posted && np.recvQ >= 32 && d.chance(.5) {
		// Room for all at once: any order will do.
		np.recvQ = max(len(np.recvs), 1)
		d.Shuffle(len(np.recvs), func(i, j int) { np.recvs[i], np.recvs[j] = np.recvs[j], np.recvs[i] })
	}
	np.bystand = d.IntN(3)
}

// drawLoose gives a receiver receives of any kind. What they leave is taken by
// receives for everything.
func (p *plan) drawLoose(d draw, at int) {
	np := p.nodes[at]
	np.recv = posted
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
		p.dress(d, r)
		if p.flavor == fickle && d.chance(.3) {
			r.timeout = d.upTo(200*time.Microsecond) + 1
		}
		np.recvs = append(np.recvs, r)
	}
}

// dress draws what does not decide about matching.
func (p *plan) dress(d draw, r *receive) {
	if d.chance(.1) && r.size > 8 {
		r.size = 8 + rand.New(d).IntN(r.size-8) // cut off
	}
	if d.chance(.1) {
		r.pieces = 2 + d.IntN(3)
	}
	if d.chance(.1) {
		r.pause = d.upTo(50 * time.Microsecond)
	}
}

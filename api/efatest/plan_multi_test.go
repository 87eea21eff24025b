package efatest_test

import (
	"math/rand/v2"
	"time"

	"github.com/efactor/efactor/api/efa"
)

// restStyle is how a loose receiver receives what its other receives have left.
type restStyle uint8

const (
	restOne   restStyle = iota // receives of one message, one after the other
	restMulti                  // buffers for many
	restNext                   // Next
)

// drawMulti decides how loose receivers receive the rest. It has a randomness of its own.
func (p *plan) drawMulti() {
	d := draw{rand.New(rand.NewPCG(p.seed, 0x3417))}
	for _, np := range p.nodes {
		np.rest = pick(d, restOne, restMulti, restMulti, restNext)
		np.cfg.NextMemory = pick(d, 0, 0, 20_000, 1<<20)
		if np.rest == restMulti {
			np.recvQ += d.IntN(3) // so that one place for all messages is left, or few
		}
	}
}

// drawRest draws the buffer for many that a node posts as its k-th.
func (n *node) drawRest(k int, rc *receive) (minLeft int) {
	p := n.run.p
	d := draw{rand.New(rand.NewPCG(p.seed, uint64(n.id)<<32|uint64(k)))}
	most := min(max(n.plan.maxBytes, 64), maxSize)
	rc.size = pick(d, most, 8*d.log(1, most/8), d.log(1, most))
	rc.mem = pick(d, plain, plain, pooled, own)
	if p.flavor == fickle && d.chance(.3) {
		rc.timeout = d.upTo(300*time.Microsecond) + 1
	}
	return pick(d, 0, 1, 1, d.log(1, rc.size))
}

// multiReq makes a request one of a buffer for many.
func multiReq(req *efa.RecvReq, minLeft int) {
	req.Multi, req.MinLeft = true, minLeft
}

package efatest_test

import (
	"math/rand/v2"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/model"
	"github.com/efactor/efactor/wire"
)

// message is one to be sent.
type message struct {
	model.Msg
	style   style
	level   efa.Level
	mem     memory
	pieces  int           // more than one: gathered
	pause   time.Duration // before it
	timeout time.Duration // of its context; 0: none
	fence   bool
	after   earlier
}

// receive is one to be posted.
type receive struct {
	model.Recv
	probe   probe
	peeked  *model.Got // what a peek saw just before
	size    int
	mem     memory
	pieces  int
	pause   time.Duration
	timeout time.Duration // after which it is canceled; 0: never
}

// Sizes of messages. Those above big are named by their tag, so that a buffer of
// their size is needed only once.
const (
	maxSize  = 256 << 10
	hugeSize = 4 << 20
	bigSize  = 64 << 10
)

// Tags: a class in the highest byte, and below it nothing or, if tagNamed is set,
// the message's ID.
const (
	tagShift = 56
	tagNamed = 1 << 55
	tagBig   = 0xb1 << tagShift
	tagNone  = 0xff << tagShift // of nobody
	tagMask  = 1<<tagShift - 1
)

// drawTasks draws messages and accesses, and their endpoints.
func (p *plan) drawTasks(d draw) {
	count, n := d.log(200, 2000), len(p.nodes)
	if p.fabric.MTU < 4096 {
		count = d.log(200, 500) // each byte costs more
	}
	classes := 1 + d.IntN(6)
	shape := d.IntN(4)
	share := pick(d, 0, .1, .3, .5, .9)
	for range count {
		from, to := d.IntN(n), d.IntN(n)
		switch shape {
		case 0: // one to many
			from *= d.IntN(2)
		case 1: // many to one
			to *= d.IntN(2)
		case 2: // a ring
			to = (from + 1) % n
		}
		if d.chance(share) {
			if a := p.drawAccess(d, from, to); a != nil {
				p.accesses = append(p.accesses, a)
				p.tasks = append(p.tasks, task{a: a})
			}
			continue
		}
		m := p.drawMessage(d, from, to, classes)
		p.msgs = append(p.msgs, m)
		p.tasks = append(p.tasks, task{m: m})
	}
}

func (p *plan) drawMessage(d draw, from, to, classes int) *message {
	id := len(p.msgs)
	m := &message{style: pick(d, blocking, posted, posted, posted, started), pieces: 1}
	m.ID, m.From, m.To = id, from, to
	m.Len = p.drawSize(d)
	np := p.nodes[to]
	np.maxBytes = max(np.maxBytes, m.Len)
	m.Tagged, m.HasData = d.chance(.6), d.chance(.3)
	switch {
	case m.Len > bigSize:
		m.Tagged, m.Tag = true, tagBig|tagNamed|uint64(id)
	case m.Tagged:
		m.Tag = uint64(d.IntN(classes)) << tagShift
		if m.Tag>>tagShift%2 == 1 {
			m.Tag |= tagNamed | uint64(id)
		}
	}
	// A peer that does not know DC makes the message fail, for which a strict
	// receiver would wait in vain.
	dc := p.both(from, to, wire.FeatureDeliveryComplete)
	if np.loose || dc {
		m.level = pick(d, 0, 0, 0, 0, efa.Delivered, efa.Delivered)
	}
	// Where a message may get lost each must identify itself.
	if m.Len < 8 && (p.flavor != calm || p.broken || m.level > 0 && !dc) {
		m.HasData = true
	}
	if m.HasData {
		m.Data = d.Uint64()<<32 | uint64(id)
		if p.cutsData(from) {
			m.Data = uint64(id)
		}
	}
	p.drawManner(d, m)
	return m
}

// drawManner draws what makes no difference to the receiver.
func (p *plan) drawManner(d draw, m *message) {
	if m.Len <= p.fabric.MTU-168 && m.Len <= 4096 && d.chance(.1) {
		m.style = injected
	}
	m.mem = p.drawMemory(d, m.From, m.To)
	if d.chance(.1) {
		m.pieces = 2 + d.IntN(3)
	}
	if d.chance(.1) {
		m.pause = d.upTo(50 * time.Microsecond)
	}
	if p.flavor == fickle && m.style != injected && m.Len <= maxSize && d.chance(.1) && p.mayGiveUp(m) {
		m.timeout = d.upTo(100*time.Microsecond) + 1
	}
}

// mayGiveUp reports whether a message may be canceled. To a peer that does not know PEER_ERROR a canceled one goes on
// from a copy; where it cannot be copied, that peer may be failed.
func (p *plan) mayGiveUp(m *message) bool {
	return m.mem == plain && p.nodes[m.From].cfg.Protocol.DetachLimit == 0 || p.tellsAborts(m.From, m.To)
}

func (p *plan) drawSize(d draw) int {
	n := 0
	switch {
	case d.chance(.02):
		n = d.log(1, hugeSize)
	case d.chance(.1):
	default:
		n = d.log(1, maxSize)
	}
	if p.fabric.MTU < 4096 {
		n /= 8
	}
	return n
}

// memory is where a buffer lies.
type memory uint8

const (
	plain  memory = iota // in Go's heap
	pooled               // in the host's registered memory
	own                  // registered for this operation
	doomed               // the same, and closed in the middle
)

// drawMemory draws where a buffer of at lies, for an operation with to. A peer that
// does not know PEER_ERROR would have to be failed if the memory were closed.
func (p *plan) drawMemory(d draw, at, to int) memory {
	m := pick(d, plain, plain, plain, pooled, pooled, own)
	if p.flavor == fickle && m == own && d.chance(.3) && p.tellsAborts(at, to) {
		m = doomed
	}
	return m
}

// Some accesses go between lists: what they move is cut into pieces that lie in one order here
// and in the same at the peer, but not in that of their addresses. For the model nothing is
// new: all of it is one write, or one read, with one outcome, and its data comes after all of
// its bytes.

// listed is of how many pieces the lists of an access are; 0: it has none.
func (a *access) listed() int {
	if a.slot == nil || a.wrong != right || a.n == 0 || a.style != posted && a.style != started || a.id%3 != 0 {
		return 0
	}
	return 2 + a.id/3%13
}

// lists cuts both sides of an access: with an odd id at the same places, else at different
// ones in the order of their addresses.
func (a *access) lists(r efa.Remote, b []byte) (here [][]byte, there []efa.Remote) {
	n := a.listed()
	if a.id%2 == 0 {
		return pieces(b, 1+a.id/2%5), remotePieces(r, a.n, n)
	}
	here, there = pieces(b, n), remotePieces(r, a.n, n)
	for i := range n {
		j := (i*a.id + a.id/7) % n
		here[i], here[j] = here[j], here[i]
		there[i], there[j] = there[j], there[i]
	}
	return here, there
}

// remotePieces cuts size bytes at r into n parts.
func remotePieces(r efa.Remote, size, n int) (list []efa.Remote) {
	for i := range n {
		from, to := size*i/n, size*(i+1)/n
		list = append(list, r.Slice(uint64(from), uint64(to-from)))
	}
	return list
}

// mayHear reports whether the target may be told that the write was of n bytes: one in pieces
// may go in several parts, of which the last has the data.
func (a *access) mayHear(n int) bool {
	if a.listed() > 0 || a.pieces > 1 {
		return n <= a.n && (n > 0 || a.n == 0)
	}
	return n == a.n
}

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

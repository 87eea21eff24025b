package efatest_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest/internal/model"
)

// flavor is what kind of trouble a seed makes.
type flavor uint8

const (
	calm     flavor = iota // the network misbehaves, the programs do not
	fickle                 // operations are canceled
	casualty               // an endpoint dies or is closed in the middle
	numFlavors
)

func (f flavor) String() string { return [numFlavors]string{"calm", "fickle", "casualty"}[f] }

// style is by which call an operation is made.
type style uint8

const (
	blocking style = iota
	posted
	started
	injected
)

// plan is what a seed decides before anything runs.
type plan struct {
	seed   uint64
	flavor flavor
	fabric sim.Config
	rules  []sim.Rule
	nodes  []*nodePlan
	msgs   []*message // in the order in which they are sent, as far as senders have one

	// Of a casualty: when, by messages sent; whether by Kill or by Close; and
	// whether it comes back.
	victim, strikeAt int
	kill, restart    bool

	// Of a fickle one: at strikeAt, remover takes removed out of its address
	// vector for a while, if they are not the same.
	remover, removed int
	pause            time.Duration
}

// nodePlan is one endpoint and how its programs behave.
type nodePlan struct {
	host     int // nodes of one host share a device, a domain, a vector
	shards   int // of the host
	cfg      efa.EndpointConfig
	sendQ    int // depths of its queues
	recvQ    int
	know     bool // inserts all addresses at the beginning
	loose    bool // posts receives at random, and what takes everything else at the end
	recv     style
	late     time.Duration // before the first receive is posted
	recvs    []*receive
	bystand  int // receives that nothing will match, to be canceled
	maxBytes int
}

// message is one to be sent.
type message struct {
	model.Msg
	style   style
	pieces  int           // more than one: gathered
	pause   time.Duration // before it
	timeout time.Duration // of its context; 0: none
}

// receive is one to be posted.
type receive struct {
	model.Recv
	size    int
	pieces  int
	pause   time.Duration
	timeout time.Duration // after which it is canceled; 0: never
}

type draw struct{ *rand.Rand }

func (d draw) chance(p float64) bool { return d.Float64() < p }

// log draws from lo to hi, every order of magnitude as likely as another.
func (d draw) log(lo, hi int) int {
	x := math.Log(float64(lo)) + d.Float64()*(math.Log(float64(hi)+1)-math.Log(float64(lo)))
	return min(max(int(math.Exp(x)), lo), hi)
}

func (d draw) upTo(t time.Duration) time.Duration { return time.Duration(d.Int64N(int64(t) + 1)) }

func pick[T any](d draw, of ...T) T { return of[d.IntN(len(of))] }

// newPlan draws everything.
func newPlan(seed uint64) *plan {
	d := draw{rand.New(rand.NewPCG(seed, 0x91a7))}
	p := &plan{seed: seed, flavor: pick(d, calm, calm, calm, fickle, fickle, casualty, casualty, casualty)}
	p.drawFabric(d)
	n := 2 + d.IntN(7)
	if p.flavor == casualty {
		n = max(n, 3)
		p.victim, p.kill, p.restart = d.IntN(n), d.chance(.6), d.chance(.5)
	}
	p.drawNodes(d, n)
	p.drawMessages(d)
	for i, np := range p.nodes {
		if np.loose {
			p.drawLoose(d, i)
		} else {
			p.drawStrict(d, i)
		}
	}
	p.strikeAt = 1 + d.IntN(len(p.msgs))
	p.remover, p.removed, p.pause = d.IntN(n), d.IntN(n), d.upTo(50*time.Microsecond)
	if p.flavor == fickle {
		p.nodes[p.remover].cfg.TxDepth = 0 // a call that waits for its turn would keep the old handle
	}
	return p
}

func (p *plan) String() string {
	s := fmt.Sprintf("%v, %d endpoints, %d messages, MTU %d", p.flavor, len(p.nodes), len(p.msgs), p.fabric.MTU)
	if p.flavor == casualty {
		s += fmt.Sprintf(", endpoint %d: kill %v restart %v at message %d", p.victim, p.kill, p.restart, p.strikeAt)
	}
	return s
}

func (p *plan) drawFabric(d draw) {
	p.fabric = sim.Config{
		MTU:     pick(d, 512, 1024, 2048, 4096, 4096, 8192, 8760, 8760, 8760, 8760),
		InOrder: d.chance(.1), CopyLate: d.chance(.25), ReportGone: d.chance(.5),
	}
	if d.chance(.5) {
		p.fabric.Delay, p.fabric.Jitter = d.upTo(20*time.Microsecond), d.upTo(100*time.Microsecond)
	}
	fault := func(chance float64, r sim.Rule) {
		if d.chance(chance) {
			p.rules = append(p.rules, r)
		}
	}
	fault(.3, sim.Rule{Fault: sim.FaultRNR, P: pick(d, .01, .1, .5)})
	fault(.2, sim.Rule{Fault: sim.FaultUnknownAH, P: pick(d, .1, 1)})
	fault(.2, sim.Rule{Fault: sim.FaultDelay, P: .1, Delay: 300 * time.Microsecond})
	fault(.2, sim.Rule{Fault: sim.FaultLateStatus, P: .1, Delay: 300 * time.Microsecond})
	fault(.15, sim.Rule{Fault: sim.FaultQueueFull, P: .1})
	fault(.1, sim.Rule{Fault: sim.FaultRefuseQP, P: .5, Times: 3})
}

// Times of the protocol, in simulated time. Bound is how long after a death an
// operation may last.
const (
	probeAfter  = 20 * time.Millisecond
	peerTimeout = 200 * time.Millisecond
	bound       = peerTimeout + 2*probeAfter
)

func (p *plan) drawNodes(d draw, n int) {
	var first uint32
	if d.chance(.5) {
		first = -uint32(1 + d.IntN(200))
	}
	wait := d.chance(.1)
	for i := range n {
		np := &nodePlan{host: i, shards: 1, recv: pick(d, blocking, posted, posted)}
		if i > 0 && d.chance(.2) && !(p.flavor == casualty && (p.victim == i || p.victim == p.nodes[i-1].host)) {
			np.host = p.nodes[i-1].host
		}
		np.shards = pick(d, 1, 1, 2)
		np.know = d.chance(.5)
		np.loose = p.flavor != calm || d.chance(.25)
		np.late = pick(d, 0, 0, d.upTo(time.Millisecond))
		np.sendQ, np.recvQ = d.log(1, 64), d.log(1, 64)
		np.cfg = efa.EndpointConfig{Protocol: efa.ProtocolConfig{
			SendQueue: d.log(4, 64), RecvQueue: d.log(4, 64),
			MaxMedium: pick(d, 0, 0, -1, d.log(512, 1<<18)), Credits: d.log(1, 32), RecvWindow: d.log(1, 16384),
			RNRRetry: pick(d, -1, 0, 1, 2, 7), RNRInitial: pick(d, 0, d.upTo(50*time.Microsecond)),
			RNRMax: time.Millisecond, ProbeAfter: probeAfter, PeerTimeout: peerTimeout,
			FirstMsgID: first, WaitHandshake: wait, HostID: pick(d, 0, d.Uint64()),
			Rounding: pick(d, ope.RoundDown, ope.RoundUp, ope.Fill),
		}}
		if d.chance(.3) {
			np.cfg.TxDepth = 1 + d.IntN(8)
		}
		if d.chance(.3) && !np.loose {
			np.cfg.RxDepth = 1 + d.IntN(8)
		}
		if d.chance(.1) && p.flavor == calm {
			np.cfg.Protocol.TotalMemory = int64(d.log(1<<14, 1<<20))
		}
		if p.flavor != calm && d.chance(.3) {
			np.cfg.Protocol.DetachLimit = d.log(1, 1<<18)
		}
		p.nodes = append(p.nodes, np)
	}
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

func (p *plan) drawMessages(d draw) {
	count, n := d.log(200, 2000), len(p.nodes)
	if p.fabric.MTU < 4096 {
		count = d.log(200, 500) // each byte costs more
	}
	classes := 1 + d.IntN(6)
	shape := d.IntN(4)
	for id := range count {
		m := &message{Msg: model.Msg{ID: id}, style: pick(d, blocking, posted, posted, posted, started), pieces: 1}
		m.From, m.To = d.IntN(n), d.IntN(n)
		switch shape {
		case 0: // one to many
			m.From = m.From * d.IntN(2)
		case 1: // many to one
			m.To = m.To * d.IntN(2)
		case 2: // a ring
			m.To = (m.From + 1) % n
		}
		p.drawSize(d, m)
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
		// Where a message may get lost each must say who it is.
		if p.flavor != calm && m.Len < 8 {
			m.HasData = true
		}
		if m.HasData {
			m.Data = d.Uint64()<<32 | uint64(id)
		}
		if m.Len <= p.fabric.MTU-168 && m.Len <= 4096 && d.chance(.1) {
			m.style = injected
		}
		if d.chance(.1) {
			m.pieces = 2 + d.IntN(3)
		}
		if d.chance(.1) {
			m.pause = d.upTo(50 * time.Microsecond)
		}
		if p.flavor == fickle && m.style != injected && m.Len <= maxSize && d.chance(.1) {
			m.timeout = d.upTo(100*time.Microsecond) + 1
		}
		p.msgs = append(p.msgs, m)
	}
}

func (p *plan) drawSize(d draw, m *message) {
	switch {
	case d.chance(.02):
		m.Len = d.log(1, hugeSize)
	case d.chance(.1):
		m.Len = 0
	default:
		m.Len = d.log(1, maxSize)
	}
	if p.fabric.MTU < 4096 {
		m.Len /= 8
	}
	np := p.nodes[m.To]
	np.maxBytes = max(np.maxBytes, m.Len)
}

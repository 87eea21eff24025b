package efatest_test

import (
	"math/rand/v2"
	"time"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
	"github.com/efactor/efactor/internal/era"
	"github.com/efactor/efactor/internal/eratest"
	"github.com/efactor/efactor/wire"
)

// hostPlan is shared by the endpoints of one host: a device, a domain, an address
// vector, memory.
type hostPlan struct {
	shards int
	dev    sim.DeviceConfig
	near   int  // network of a second, better device; 0: there is none
	pool   int  // bytes of registered memory for their own buffers
	allocs bool // that is from Alloc, not registered
	stores []*store
	kept   int // DomainConfig.Registrations
}

// nodePlan is one endpoint and how its programs behave.
type nodePlan struct {
	host     int // the node that it lives with, or itself
	cfg      efa.EndpointConfig
	era      *era.Profile // that it talks like; nil: as efactor does
	sendQ    int          // depths of its queues
	recvQ    int
	know     bool // inserts all addresses at the beginning
	loose    bool // posts receives at random, and what takes everything else at the end
	rest     restStyle
	recv     style
	late     time.Duration // before the first receive is posted
	recvs    []*receive
	bystand  int // receives that nothing will match, to be canceled
	maxBytes int
}

// Times of the protocol, in simulated time. Bound is how long after a death an
// operation may last.
const (
	probeAfter  = 20 * time.Millisecond
	peerTimeout = 200 * time.Millisecond
	bound       = peerTimeout + 2*probeAfter
)

func (p *plan) drawNodes(d draw, n int) {
	var eras []era.Profile
	if !p.broken && d.chance(.3) { // the old ones have no word for a read that failed
		eras = drawEras(d)
	}
	var first uint32
	if eras == nil && d.chance(.5) {
		first = -uint32(1 + d.IntN(200))
	}
	wait := d.chance(.1)
	for i := range n {
		np := &nodePlan{host: i, recv: pick(d, blocking, posted, posted)}
		if i > 0 && d.chance(.2) && !(p.flavor == casualty && (p.victim == i || p.victim == p.nodes[i-1].host)) {
			np.host = p.nodes[i-1].host
		}
		np.know = d.chance(.5)
		np.loose = p.flavor != calm || d.chance(.25)
		np.late = pick(d, 0, 0, d.upTo(time.Millisecond))
		np.sendQ, np.recvQ = d.log(1, 64), d.log(1, 64)
		np.cfg = efa.EndpointConfig{Protocol: efa.ProtocolConfig{
			SendQueue: d.log(4, 64), RecvQueue: d.log(4, 64),
			MaxMedium: pick(d, 0, 0, -1, d.log(512, 1<<18)), Credits: d.log(1, 32), RecvWindow: d.log(1, 16384),
			RNRRetry: pick(d, -1, 0, 1, 2, 7), RNRInitial: pick(d, 0, d.upTo(50*time.Microsecond)),
			RNRMax: time.Millisecond, ProbeAfter: probeAfter, PeerTimeout: peerTimeout,
		}}
		knobs := np.knobs()
		*knobs = efatest.Knobs{
			FirstMsgID: first, WaitHandshake: wait, HostID: pick(d, 0, d.Uint64()),
			Rounding: pick(d, ope.RoundDown, ope.RoundUp, ope.Fill),
		}
		p.drawRDMA(d, &np.cfg.Protocol)
		if eras != nil && d.chance(.6) {
			np.talkLike(&eras[d.IntN(len(eras))])
			np.cfg.Protocol.RecvWindow, knobs.Rounding = 0, 0 // its own
		}
		p.drawLimits(d, np)
		p.nodes = append(p.nodes, np)
	}
}

// knobs are the settings of the endpoint that only tests make.
func (np *nodePlan) knobs() *efatest.Knobs { return efatest.KnobsOf(&np.cfg.Protocol) }

// talkLike has the endpoint talk like a release.
func (np *nodePlan) talkLike(e *era.Profile) {
	np.era = e
	if err := eratest.TalkLike(np.knobs(), e.Name); err != nil {
		panic(err) // it is one of era.All
	}
}

// drawEras draws the releases of a seed. Those that send a connid without a request
// for it are not compatible with the oldest. Builds between releases read another PEER_ERROR.
func drawEras(d draw) (list []era.Profile) {
	old := d.chance(.5)
	for _, e := range era.All {
		if old && e.AlwaysConnID || !old && !e.Has(wire.FeatureConnIDHeader) || e.PeerErrors != wire.PeerErrorForm24 {
			continue
		}
		list = append(list, e)
	}
	return list
}

// drawRDMA draws the thresholds of reads, so that every subprotocol has its share of
// the sizes here.
func (p *plan) drawRDMA(d draw, c *efa.ProtocolConfig) {
	c.MinRead = pick(d, 0, -1, d.log(1, 1<<16), d.log(1, 1<<16), d.log(1, 1<<16))
	c.MinReadWrite = pick(d, 0, -1, d.log(1, 1<<16), d.log(1, 1<<16), d.log(1, 1<<16))
	c.RuntSize = pick(d, 0, d.log(8, 1<<17))
	c.ReadSegment = pick(d, 0, 0, d.log(512, 1<<18))
	c.NoRDMARead, c.NoRDMAWrite = d.chance(.05), d.chance(.05)
}

func (p *plan) drawLimits(d draw, np *nodePlan) {
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
}

// drawHosts draws devices and memory. If all devices are alike, the endpoints may
// take that for granted.
func (p *plan) drawHosts(d draw) {
	maxRDMA := pick(d, 0, 0, d.log(512, 1<<20))
	device := func() sim.DeviceConfig {
		return sim.DeviceConfig{
			RDMARead: d.chance(.7), RDMAWrite: d.chance(.5), LocalKeys: d.chance(.5), UnsolicitedWrite: d.chance(.5),
			MaxRDMA: maxRDMA,
		}
	}
	model, alike, homogeneous := device(), d.chance(.3), d.chance(.3)
	p.hosts = make([]*hostPlan, len(p.nodes))
	for i, np := range p.nodes {
		homogeneous = homogeneous && alike && np.era == nil
		if maxRDMA > 0 { // more is refused
			np.cfg.Protocol.ReadSegment = min(np.cfg.Protocol.ReadSegment, maxRDMA)
		}
		if np.host != i {
			continue
		}
		hp := &hostPlan{shards: pick(d, 1, 1, 2), dev: model, allocs: d.chance(.5)}
		if !alike {
			hp.dev = device()
		}
		hp.pool = pick(d, 0, d.log(1<<16, 1<<21), d.log(1<<16, 1<<21))
		p.drawStores(d, i, hp)
		p.hosts[i] = hp
	}
	p.dropUnsolicited()
	if !homogeneous {
		return
	}
	for _, np := range p.nodes {
		c := &np.cfg.Protocol
		c.Homogeneous, c.NoRDMARead, c.NoRDMAWrite = true, false, false
	}
}

// drawPlain has devices with keys take payloads from registered memory, and register plain
// memory, for some seeds. All other draws are independent of it.
func (p *plan) drawPlain() {
	d := draw{rand.New(rand.NewPCG(p.seed, 0x91a1))}
	for i, hp := range p.hosts {
		if hp == nil || !hp.dev.LocalKeys || !d.chance(.6) {
			continue
		}
		hp.dev.Gathers, hp.dev.MinRegister, hp.dev.NoWindows = d.chance(.8), d.log(64, 1<<16), d.chance(.7)
		hp.kept = pick(d, 0, 0, -1, 2)
		p.nodes[i].cfg.Protocol.MaxCopy = d.log(64, 8192)
	}
}

// drawPaths gives hosts a second device, on one of two networks, for some seeds. All
// other draws are independent of it.
func (p *plan) drawPaths() {
	d := draw{rand.New(rand.NewPCG(p.seed, 0x9a74))}
	if !d.chance(.2) {
		return
	}
	for i, hp := range p.hosts {
		if hp != nil {
			hp.near = pick(d, 0, 1, 1, 2)
		}
		p.nodes[i].cfg.QPN = uint16(1000 + i) // the same on both, also if one comes back
	}
}

// at is the host of an endpoint.
func (p *plan) at(i int) *hostPlan { return p.hosts[p.nodes[i].host] }

package efatest_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa/amo"
	"github.com/efactor/efactor/wire"
)

// flavor is the kind of trouble in a seed.
type flavor uint8

const (
	calm     flavor = iota // the network misbehaves, the programs do not
	fickle                 // operations are canceled, memory is closed under them
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

// plan holds a seed's decisions, made before anything runs.
type plan struct {
	seed     uint64
	queued   bool // every message between actors goes through the ring
	compared bool // with another run
	flavor   flavor
	fabric   sim.Config
	rules    []sim.Rule
	broken   bool // RDMA may fail, by a rule
	nodes    []*nodePlan
	hosts    []*hostPlan // by their first node; nil where a node lives with another
	watch    *watch      // telemetry of the run; may be nil
	msgs     []*message
	accesses []*access
	tasks    []task         // messages and accesses, in the order in which senders begin them
	slots    int            // that were drawn
	wrongs   map[[2]int]int // accesses to be refused, by requester and target

	// Of a casualty: when, by tasks begun; whether by Kill or by Close; and
	// whether it comes back.
	victim, strikeAt int
	kill, restart    bool

	// Of a fickle one: at strikeAt, remover takes removed out of its address
	// vector for a while, if they are not the same.
	remover, removed int
	pause            time.Duration
}

// task is one thing that a program does: a message or an access.
type task struct {
	m *message
	a *access
}

func (t task) from() int {
	if t.m != nil {
		return t.m.From
	}
	return t.a.from
}

func (t task) pause() (time.Duration, int) {
	if t.m != nil {
		return t.m.pause, t.m.To
	}
	return t.a.pause, t.a.to
}

func (t task) String() string {
	if t.m != nil {
		return t.m.Msg.String()
	}
	return t.a.String()
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
	p := &plan{
		seed: seed, flavor: pick(d, calm, calm, calm, fickle, fickle, casualty, casualty, casualty),
		wrongs: make(map[[2]int]int),
	}
	p.drawFabric(d)
	p.drawHandles()
	n := 2 + d.IntN(7)
	if p.flavor == casualty {
		n = max(n, 3)
		p.victim, p.kill, p.restart = d.IntN(n), d.chance(.6), d.chance(.5)
	}
	p.drawNodes(d, n)
	p.drawHosts(d)
	p.drawPaths()
	p.drawPlain()
	p.drawTasks(d)
	p.drawRights()
	p.drawOrder()
	for i, np := range p.nodes {
		if np.loose {
			p.drawLoose(d, i)
		} else {
			p.drawStrict(d, i)
		}
	}
	p.drawMulti()
	p.drawFew()
	p.drawHasty()
	p.strikeAt = 1 + d.IntN(len(p.tasks))
	p.remover, p.removed, p.pause = d.IntN(n), d.IntN(n), d.upTo(50*time.Microsecond)
	if p.flavor == fickle {
		p.nodes[p.remover].cfg.TxDepth = 0 // a call that waits for its turn would keep the old handle
	}
	return p
}

func (p *plan) String() string {
	s := fmt.Sprintf("%v, %d endpoints, %d messages, %d accesses, MTU %d",
		p.flavor, len(p.nodes), len(p.msgs), len(p.accesses), p.fabric.MTU)
	if p.flavor == casualty {
		s += fmt.Sprintf(", endpoint %d: kill %v restart %v at task %d", p.victim, p.kill, p.restart, p.strikeAt)
	}
	for i, np := range p.nodes {
		if near := p.at(i).near; near > 0 {
			s += fmt.Sprintf(", %d is on network %d", i, near)
		}
		if np.era != nil {
			s += fmt.Sprintf(", %d is of %s", i, np.era.Name)
		}
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
	fault := func(chance float64, r sim.Rule) bool {
		strikes := d.chance(chance)
		if strikes {
			p.rules = append(p.rules, r)
		}
		return strikes
	}
	fault(.3, sim.Rule{Fault: sim.FaultRNR, P: pick(d, .01, .1, .5)})
	fault(.2, sim.Rule{Fault: sim.FaultUnknownAH, P: pick(d, .1, 1)})
	fault(.2, sim.Rule{Fault: sim.FaultDelay, P: .1, Delay: 300 * time.Microsecond})
	fault(.2, sim.Rule{Fault: sim.FaultLateStatus, P: .1, Delay: 300 * time.Microsecond})
	fault(.15, sim.Rule{Fault: sim.FaultQueueFull, P: .1})
	fault(.1, sim.Rule{Fault: sim.FaultRefuseQP, P: .5, Times: 3})
	fault(.15, sim.Rule{Fault: sim.FaultRefuseMR, P: pick(d, .1, .5)})
	p.broken = fault(.1, sim.Rule{
		Fault: sim.FaultStatus, P: pick(d, .02, .2), WRs: []device.WR{device.WRRead, device.WRWrite},
		Status: pick(d, device.StatusInvalidLKey, device.StatusBadAddress),
	})
}

// knows reports whether an endpoint has a word for a feature.
func (p *plan) knows(i int, f wire.Feature) bool {
	return p.nodes[i].era == nil || p.nodes[i].era.Has(f)
}

// both reports whether two endpoints have a word for a feature.
func (p *plan) both(i, k int, f wire.Feature) bool { return p.knows(i, f) && p.knows(k, f) }

// tellsAborts reports whether one of two endpoints tells the other that a message is given up.
func (p *plan) tellsAborts(i, k int) bool {
	return p.both(i, k, wire.FeaturePeerError) && !p.nodes[i].cfg.Protocol.Homogeneous
}

// cutsData reports whether an endpoint sends 32 bits of remote CQ data in tagged
// messages.
func (p *plan) cutsData(i int) bool {
	return p.nodes[i].era != nil && p.nodes[i].era.CQData32
}

// comes is the data with which a write comes: of releases since 2.2 the lower half.
func (p *plan) comes(a *access) uint64 {
	if e := p.nodes[a.from].era; e != nil && e.WriteData32 {
		return uint64(uint32(a.data))
	}
	return a.data
}

// updates are the operations that change memory. Differences are efactor's alone, so they are
// left out where a node behaves as a libfabric.
func (p *plan) updates() []amo.Op {
	for i := range p.nodes {
		if p.nodes[i].era != nil {
			return updates
		}
	}
	return append(slices.Clip(updates), amo.Diff)
}

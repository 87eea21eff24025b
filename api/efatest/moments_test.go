package efatest_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// A seed cannot show what it never reaches. So rare moments are counted, and a run of enough seeds that
// never reached one of them fails with its name.

// sometimes are the rare moments, each with the number of seeds that reach it. A moment is counted by
// the endpoints, as a counter or a step of a machine, or is seen on the fabric (see moments).
var sometimes = map[string]int{
	ctsGivenUp:       1000,
	readRspGivenUp:   10000,
	nackGivenUp:      100000, // a region is closed while its reader says that it cannot read it: about one seed in 10,000
	readBreaksOff:    1000,
	refusedToOp:      1000,
	newcomer:         1000,
	newcomerInFlight: 1000,

	"PeersReturned":       10000,
	"PeersSilent":         1000,
	"event peer closed":   1000,
	"event peer pressure": 1000,
	"event peer relieved": 1000,

	"life.LIVE fail":       1000,
	"life.LIVE bury":       1000,
	"life.FAILING told":    1000,
	"life.FAILING bury":    10000,
	"life.AWAY back":       10000,
	"life.AWAY back-owing": 10000,
	"life.AWAY bury":       1000,
	"life.OWING bury":      10000,
	"life.OWING fail":      10000,

	"place.NEW insert":       1000,
	"place.NEW admit":        1000,
	"place.NEW crowd":        1000,
	"place.NEW try":          1000,
	"place.LISTED remove":    1000,
	"place.LISTED replace":   1000,
	"place.UNLISTED insert":  1000,
	"place.UNLISTED evict":   1000,
	"place.UNLISTED forget":  10000,
	"place.UNLISTED replace": 10000,
	"place.WAITING insert":   1000,
	"place.WAITING evict":    10000,
	"place.ON_TRIAL admit":   1000,
	"place.ON_TRIAL reject":  10000,
}

// The moments that are seen on the fabric.
const (
	ctsGivenUp       = "moment: the first CTS comes for a send that was given up"
	readRspGivenUp   = "moment: a READRSP comes for a read that was given up"
	nackGivenUp      = "moment: a READ_NACK comes for a send that was given up"
	readBreaksOff    = "moment: a long read breaks off after a part"
	refusedToOp      = "moment: a registration is refused to an operation"
	newcomer         = "moment: a newcomer speaks at a place that is known"
	newcomerInFlight = "moment: a newcomer sends more before it is known to be there"
)

// moments sees what is true of several events together.
type moments struct {
	run     *run
	named   map[name]string // the moment that it is if that was given up
	nacked  map[way]clock.Time
	read    map[reading]bool
	connids map[way]uint32
	trials  map[way]bool
}

// way leads from one endpoint to another.
type way struct{ from, to sim.Endpoint }

// name is what the first of a way calls an operation of the second, which has not used it yet.
type name struct {
	way
	id uint32
}

// reading is memory of the second that the first reads.
type reading struct {
	way
	key uint64
}

func newMoments(r *run) *moments {
	return &moments{
		run: r, named: make(map[name]string), nacked: make(map[way]clock.Time), read: make(map[reading]bool),
		connids: make(map[way]uint32), trials: make(map[way]bool),
	}
}

func (m *moments) see(e sim.Event) {
	switch {
	case e.Kind == sim.EventFault && e.Fault == sim.FaultRefuseMR && m.run.sent > 0:
		m.run.stats[refusedToOp]++
	case e.Kind == sim.EventArrive && e.WR == device.WRRead:
		m.reads(reading{way{e.From, e.To}, e.RKey}, e.Status)
	case e.Kind == sim.EventArrive && e.WR == device.WRSend && e.Status == device.StatusOK:
		m.arrives(e)
	case e.Kind == sim.EventPost && e.WR == device.WRSend:
		m.posted(e)
	}
}

func (m *moments) reads(x reading, s device.Status) {
	switch {
	case s == device.StatusOK:
		m.read[x] = true
	case s != device.StatusRNR && m.read[x]:
		delete(m.read, x)
		m.run.stats[readBreaksOff]++
	}
}

// arrives takes a packet that has come to its receiver.
func (m *moments) arrives(e sim.Event) {
	w := way{e.From, e.To}
	id := m.run.raws[e.From].ConnID()
	if old, known := m.connids[w]; known && old != id {
		m.run.stats[newcomer]++
		m.trials[w] = true
	} else if m.trials[w] {
		m.run.stats[newcomerInFlight]++
	}
	m.connids[w] = id
	t, _ := e.Type()
	switch wire.Type(t) {
	case wire.TypeHandshake:
		delete(m.trials, way{e.To, e.From})
	case wire.TypeCTS:
		if p := new(wire.CTS); parse(p, e) {
			m.named[name{w, p.RecvID}] = ctsGivenUp
		}
	case wire.TypeREADRSP:
		if p := new(wire.READRSP); parse(p, e) {
			m.named[name{w, p.SendID}] = readRspGivenUp
		}
	case wire.TypeReadNACK:
		m.nacked[w] = e.Time
	default:
	}
}

// posted takes a packet that is sent: of an operation that goes on, or of one that was given up.
func (m *moments) posted(e sim.Event) {
	back := way{e.To, e.From}
	t, _ := e.Type()
	switch wire.Type(t) {
	case wire.TypeCTSData:
		if p := new(wire.CTSData); parse(p, e) {
			delete(m.named, name{back, p.RecvID})
		}
	case wire.TypeCTS:
		if p := new(wire.CTS); parse(p, e) {
			delete(m.named, name{back, p.SendID})
		}
	case wire.TypePeerError:
		p := new(wire.PeerError)
		if !parse(p, e) {
			return
		}
		if at, ok := m.nacked[back]; ok && at == e.Time && p.RefKind == wire.RefMsgID {
			m.run.stats[nackGivenUp]++
		}
		x := name{back, p.OpID}
		if moment := m.named[x]; moment != "" && p.RefKind == wire.RefOpe {
			delete(m.named, x)
			m.run.stats[moment]++
		}
	default:
	}
}

// parse reads a packet, and reports whether it could be read.
func parse(p interface {
	Read(v *wire.View) (int, error)
}, e sim.Event,
) bool {
	var v wire.View
	if v.Open(packet(e)) != nil {
		return false
	}
	_, err := p.Read(&v)
	return err == nil
}

// unreached lists the moments that a run of count seeds should have reached, and has not.
func unreached(total map[string]uint64, count int) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(sometimes)) {
		if count >= sometimes[name] && total[name] == 0 {
			list = append(list, name)
		}
	}
	return list
}

// TestUnreached: a run that was long enough reports the moments that it has not reached.
func TestUnreached(t *testing.T) {
	total := make(map[string]uint64)
	for name := range sometimes {
		total[name] = 1
	}
	require.Empty(t, unreached(total, 10000))
	delete(total, ctsGivenUp)
	delete(total, readRspGivenUp)
	require.Empty(t, unreached(total, 999))
	require.Equal(t, []string{ctsGivenUp}, unreached(total, 1000))
	require.Equal(t, []string{readRspGivenUp, ctsGivenUp}, unreached(total, 10000))
}

// drawHandles has the device refuse address handles, in a draw of its own: what a newcomer has sent by then is
// to be received later, and what goes to a new peer fails.
func (p *plan) drawHandles() {
	d := draw{rand.New(rand.NewPCG(p.seed, 0xa4))}
	if p.flavor != calm && d.chance(.2) {
		p.rules = append(p.rules, sim.Rule{Fault: sim.FaultRefuseAH, P: pick(d, .1, .5), Times: 1 + d.IntN(30)})
		p.broken = true
	}
}

// drawHasty has more of the long messages given up, and soon, in a draw of its own: before their memory is closed, too.
func (p *plan) drawHasty() {
	d := draw{rand.New(rand.NewPCG(p.seed, 0x4a5))}
	for _, m := range p.msgs {
		if p.flavor == fickle && m.timeout == 0 && m.style != injected && m.Len > 1<<13 && d.chance(.4) && p.tellsAborts(m.From, m.To) {
			m.timeout = d.upTo(40*time.Microsecond) + 1
		}
	}
}

// drawFew has some receivers that take whatever comes keep few strangers, or little for one peer. All
// other draws are independent of it.
func (p *plan) drawFew() {
	d := draw{rand.New(rand.NewPCG(p.seed, 0xfe3))}
	few, little := d.chance(.15), d.chance(.15)
	for _, np := range p.nodes {
		n, bytes := 1+d.IntN(3), d.log(1<<12, 1<<17)
		if !np.loose {
			continue
		}
		if few {
			np.cfg.Protocol.MaxUnlistedPeers, np.know = n, false
		}
		if little && np.cfg.Protocol.TotalMemory == 0 {
			np.cfg.Protocol.PeerMemory = int64(bytes)
		}
	}
}

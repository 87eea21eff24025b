package devicetest

import (
	"slices"
	"testing"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/internal/testenv"
)

// Fabric is the fabric of a case.
type Fabric struct {
	// Devices can all reach each other and differ in their GIDs, unless OneGID.
	Devices []device.Device
	OneGID  bool

	// Shuffles: packets that are in flight together may change places.
	Shuffles bool

	// Single: everything happens in one goroutine, and only when Progress is
	// called (virtual time).
	Single bool
	// Progress makes one more event happen on the fabric, or time pass if there is
	// none; nil: it runs by itself.
	Progress func()

	// Allocates: other code than the driver's allocates for each packet
	// (crypto/tls).
	Allocates bool

	// Hardware: the devices are EFA cards, emulated or not. They choose the numbers of queue
	// pairs and the keys of regions, and a write with immediate shows no GID.
	Hardware bool
	// Posted lets the devices notice receives that were posted, where that takes a moment;
	// nil: it does not.
	Posted func()

	// Kill makes Devices[i] vanish as if its process or host had died; nil: the
	// driver cannot.
	Kill func(i int)
	// ReportsGone: others get OpGone after Kill, and after the end of a queue pair.
	ReportsGone bool
	// ReportsRefused: the side that refuses RDMA gets OpRefused.
	ReportsRefused bool
}

// Factory makes a fabric with that many devices, fresh for each call, and
// registers what must be cleaned up with tb.
type Factory func(tb testing.TB, devices int) *Fabric

// testCase is one part of the contract.
type testCase struct {
	name    string
	devices int
	run     func(w *world)
	needs   func(f *Fabric) bool // nil: nothing
}

// Run runs the suite.
func Run(t *testing.T, factory Factory) {
	t.Helper()
	runCases(t, factory, allCases())
}

// RunPart is Run, but in the short form it runs each n-th case alone, from the i-th on: n kinds of one device
// have the whole suite between them.
func RunPart(t *testing.T, i, n int, factory Factory) {
	t.Helper()
	runCases(t, factory, part(allCases(), i, n))
}

// RunRDMAPart is RunRDMA as RunPart is Run.
func RunRDMAPart(t *testing.T, i, n int, factory Factory) {
	t.Helper()
	runCases(t, factory, part(memoryCases(), i, n))
}

func part(cases []testCase, i, n int) []testCase {
	if !testenv.Short() {
		return cases
	}
	var some []testCase
	for k, c := range cases {
		if k%n == i%n {
			some = append(some, c)
		}
	}
	return some
}

// RunRDMA runs the part of the suite that depends on the RDMA abilities in
// device.Info, for a driver whose devices differ in them.
func RunRDMA(t *testing.T, factory Factory) {
	t.Helper()
	runCases(t, factory, memoryCases())
}

func runCases(t *testing.T, factory Factory, cases []testCase) {
	t.Helper()
	f := factory(t, 1)
	for _, c := range cases {
		if c.needs != nil && !c.needs(f) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			c.run(newWorld(t, factory(t, c.devices), patience))
		})
	}
}

func allCases() []testCase {
	return slices.Concat(
		offerCases, dataCases, pieceCases, datagramCases, queueCases, rnrCases, slotCases, addressCases, refusalCases,
		loadCases, armCases, closeCases, leftCases, allocCases, deathCases, holdCases, memoryCases(),
	)
}

func memoryCases() []testCase {
	return slices.Concat(
		regionCases, immCases, rdmaCases, rdmaRefusalCases, rightCases, rdmaLoadCases, rdmaEndCases, foreignCases(),
	)
}

func (f *Fabric) canKill() bool     { return f.Kill != nil }
func (f *Fabric) reportsGone() bool { return f.Kill != nil && f.ReportsGone }
func (f *Fabric) thrifty() bool     { return !f.Allocates }
func (f *Fabric) shuffles() bool    { return f.Shuffles }
func (f *Fabric) software() bool    { return !f.Hardware }
func (f *Fabric) manyGIDs() bool    { return !f.OneGID }
func (f *Fabric) manyGoroutines() bool {
	return !f.Single
}
func (f *Fabric) copiesAtPost() bool { return f.Devices[0].Info().CopiesAtPost }

func (f *Fabric) reads() bool  { return f.Devices[0].Info().RDMARead }
func (f *Fabric) writes() bool { return f.Devices[0].Info().RDMAWrite }
func (f *Fabric) rdma() bool   { return f.reads() || f.writes() }

func (f *Fabric) thriftyRDMA() bool { return f.rdma() && f.thrifty() }

func (f *Fabric) solicited() bool   { return f.writes() && !f.Devices[0].Info().UnsolicitedWrite }
func (f *Fabric) unsolicited() bool { return f.writes() && f.Devices[0].Info().UnsolicitedWrite }

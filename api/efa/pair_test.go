package efa_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// side is an endpoint with everything that it needs, and its handle of the other.
type side struct {
	dom  *efa.Domain
	av   *efa.AddressVector
	ep   *efa.Endpoint
	peer efa.Addr
}

// fewestAllocs is how many allocations a call makes that need not sleep: the fewest of
// some tries, since on a busy machine many must.
func fewestAllocs(runs int, call func()) float64 {
	least := testing.AllocsPerRun(runs, call)
	for range 19 {
		if least == 0 {
			break
		}
		least = min(least, testing.AllocsPerRun(runs, call))
	}
	return least
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func open(t testing.TB, dev efa.Device, dc efa.DomainConfig) *side {
	t.Helper()
	fab, err := efa.Open(efa.Config{Device: dev})
	require.NoError(t, err)
	dom, err := fab.OpenDomain(dc)
	require.NoError(t, err)
	av := dom.NewAddressVector()
	ep, err := dom.NewEndpoint(efa.EndpointConfig{AV: av})
	require.NoError(t, err)
	require.NoError(t, ep.Enable(context.Background()))
	t.Cleanup(func() {
		require.NoError(t, ep.Close())
		require.NoError(t, dom.Close())
		require.NoError(t, fab.Close())
	})
	return &side{dom: dom, av: av, ep: ep}
}

func newFabric(t testing.TB, cfg sim.Config) *sim.Fabric {
	t.Helper()
	f, err := sim.New(cfg)
	require.NoError(t, err)
	return f
}

func newDevice(t testing.TB, f *sim.Fabric) efa.Device {
	t.Helper()
	d, err := f.OpenDevice(sim.DeviceConfig{})
	require.NoError(t, err)
	return d
}

// newPair makes two endpoints in two domains that know each other.
func newPair(t testing.TB, dc efa.DomainConfig) (a, b *side) {
	t.Helper()
	f := newFabric(t, sim.Config{InOrder: true})
	a = open(t, newDevice(t, f), dc)
	b = open(t, newDevice(t, f), dc)
	introduce(t, a, b)
	return a, b
}

func introduce(t testing.TB, a, b *side) {
	t.Helper()
	var err error
	a.peer, err = a.av.Insert(b.ep.Address())
	require.NoError(t, err)
	b.peer, err = b.av.Insert(a.ep.Address())
	require.NoError(t, err)
}

// newHub makes n endpoints; all but the first know the first.
func newHub(t testing.TB, n int) []*side {
	t.Helper()
	f := newFabric(t, sim.Config{Seed: 7})
	var all []*side
	for i := range n {
		s := open(t, newDevice(t, f), efa.DomainConfig{})
		if i > 0 {
			introduce(t, s, all[0])
		}
		all = append(all, s)
	}
	return all
}

func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*7 + i>>8)
	}
	return p
}

package efatest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
	"github.com/efactor/efactor/wire"
)

// forSeeds plays a scenario in some orders.
func forSeeds(t *testing.T, play func(t *testing.T, seed uint64)) {
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed+1), func(t *testing.T) { play(t, seed+1) })
	}
}

// seat is an endpoint of a scenario, with everything that it needs.
type seat struct {
	t   *testing.T
	dev efa.Device
	dom *efa.Domain
	av  *efa.AddressVector
	ep  *efa.Endpoint
	to  []efa.Addr // the seats, itself included
}

// seatOn opens an endpoint on a device.
func seatOn(t *testing.T, dev efa.Device, cfg efa.EndpointConfig) *seat {
	t.Helper()
	fab, err := efa.Open(efa.Config{Device: dev})
	require.NoError(t, err)
	dom, err := fab.OpenDomain(efa.DomainConfig{})
	require.NoError(t, err)
	s := &seat{t: t, dev: dev, dom: dom, av: dom.NewAddressVector()}
	cfg.AV = s.av
	if cfg.RecvQueue == nil {
		cfg.RecvQueue, err = dom.NewQueue(4096)
		require.NoError(t, err)
	}
	s.ep, err = dom.NewEndpoint(cfg)
	require.NoError(t, err)
	require.NoError(t, s.ep.Enable(context.Background()))
	return s
}

func deviceOf(t *testing.T, w *efatest.World, dc sim.DeviceConfig) *efatest.Device {
	t.Helper()
	dev, err := w.Device(dc)
	require.NoError(t, err)
	return dev
}

// seats opens n endpoints that know each other, each on a device of its own.
func seats(t *testing.T, w *efatest.World, n int, dc sim.DeviceConfig, cfg efa.EndpointConfig) []*seat {
	t.Helper()
	var all []*seat
	for range n {
		all = append(all, seatOn(t, deviceOf(t, w, dc), cfg))
	}
	acquaint(all)
	return all
}

// acquaint gives every seat the handles of all.
func acquaint(all []*seat) {
	for _, s := range all {
		s.to = nil
		for _, o := range all {
			s.to = append(s.to, s.knows(o))
		}
	}
}

func (s *seat) knows(o *seat) efa.Addr {
	to, err := s.av.Insert(o.ep.Address())
	require.NoError(s.t, err)
	return to
}

// place is where the endpoint is on the fabric.
func (s *seat) place() sim.Endpoint {
	raw, ok := s.ep.Address().Raw("sim")
	require.True(s.t, ok)
	return sim.Endpoint{GID: raw.GID(), QPN: raw.QPN()}
}

// window is memory of n bytes that others may read and write.
func (s *seat) window(n int) *efa.MemoryRegion {
	m, err := s.dom.Alloc(n, efa.AccessRemoteRead|efa.AccessRemoteWrite|efa.AccessSend|efa.AccessRecv)
	require.NoError(s.t, err)
	return m
}

// counter reads one of the endpoint's counters.
func (s *seat) counter(name string) uint64 {
	s.t.Helper()
	stats, err := s.ep.Stats(context.Background())
	require.NoError(s.t, err)
	n, ok := stats[name]
	require.True(s.t, ok, "no counter %s", name)
	return n
}

// strike adds a fault of packets of these types.
func strike(t *testing.T, w *efatest.World, r efatest.Rule, types ...wire.Type) *efatest.Rule {
	t.Helper()
	for _, typ := range types {
		r.Types = append(r.Types, byte(typ))
	}
	rule, err := w.Fabric().AddRule(r)
	require.NoError(t, err)
	return rule
}

// fill is content that tells who wrote it, and where.
func fill(n int, who byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = who ^ byte(i*7)
	}
	return b
}

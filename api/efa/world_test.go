package efa_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// openDomain makes a domain on a simulated device; what was opened in it later is
// closed before it.
func openDomain(t testing.TB, f *sim.Fabric, cfg efa.DomainConfig) *efa.Domain {
	t.Helper()
	return domainOn(t, newDevice(t, f), cfg)
}

func domainOn(t testing.TB, dev efa.Device, cfg efa.DomainConfig) *efa.Domain {
	t.Helper()
	fab, err := efa.Open(efa.Config{Device: dev})
	require.NoError(t, err)
	dom, err := fab.OpenDomain(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, dom.Close())
		require.NoError(t, fab.Close())
	})
	return dom
}

// newEndpoint makes an enabled endpoint with an address vector of its own unless
// cfg has one.
func newEndpoint(t testing.TB, dom *efa.Domain, cfg efa.EndpointConfig) *side {
	t.Helper()
	if cfg.AV == nil {
		cfg.AV = dom.NewAddressVector()
	}
	ep, err := dom.NewEndpoint(cfg)
	require.NoError(t, err)
	require.NoError(t, ep.Enable(context.Background()))
	t.Cleanup(func() { require.NoError(t, ep.Close()) })
	return &side{dom: dom, av: cfg.AV, ep: ep}
}

func newQueue(t testing.TB, dom *efa.Domain, depth int) *efa.Queue {
	t.Helper()
	q, err := dom.NewQueue(depth)
	require.NoError(t, err)
	return q
}

// within runs f and fails if it hangs.
func within(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-testContext(t).Done():
		t.Fatalf("%s hangs", what)
	}
}

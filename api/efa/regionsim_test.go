package efa_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
)

// TestRegionClosedInSimulation: programs of a simulation, which all run on one
// goroutine, close a region that others use, twice at once.
func TestRegionClosedInSimulation(t *testing.T) {
	for seed := range uint64(40) {
		w, err := efatest.New(efatest.Config{Seed: seed, Fabric: sim.Config{Delay: 5000, Jitter: 5000}})
		require.NoError(t, err)
		mk := func() (*efa.Domain, *efa.AddressVector, *efa.Endpoint) {
			dev, err := w.Device(sim.DeviceConfig{RDMARead: seed%2 == 0, RDMAWrite: seed%3 == 0})
			require.NoError(t, err)
			dom := domainOnly(t, dev)
			av := dom.NewAddressVector()
			ep, err := dom.NewEndpoint(efa.EndpointConfig{AV: av})
			require.NoError(t, err)
			require.NoError(t, ep.Enable(context.Background()))
			return dom, av, ep
		}
		_, av, alice := mk()
		dom, _, bob := mk()
		m, err := dom.Alloc(1<<20, remote)
		require.NoError(t, err)
		to, err := av.Insert(bob.Address())
		require.NoError(t, err)
		begun, closed, ended := 0, 0, 0
		for i := range 4 {
			w.Go("alice", func(ctx context.Context) error {
				begun++
				var err error
				if buf := make([]byte, 1<<20); i%2 == 0 {
					err = alice.Memory(to, m.Remote()).Read(ctx, buf)
				} else {
					err = alice.Memory(to, m.Remote()).Write(ctx, buf, efa.Complete(efa.Delivered))
				}
				ended++
				if err != nil && !isAny(err, efa.ErrAccess, efa.ErrCanceled) {
					return err
				}
				return nil
			})
		}
		for range 2 {
			w.Go("bob", func(ctx context.Context) error {
				for i := uint64(0); i < 10*seed; i++ { // let them come some way
					if _, err := bob.Peek(ctx); !errors.Is(err, efa.ErrNoMessage) {
						return err
					}
				}
				err := m.Close()
				closed++
				return err
			})
		}
		require.NoError(t, w.Run(), "seed %d", seed)
		require.Equal(t, []int{4, 2, 4}, []int{begun, closed, ended})
		require.Nil(t, m.Bytes())
	}
}

func domainOnly(t *testing.T, dev efa.Device) *efa.Domain {
	fab, err := efa.Open(efa.Config{Device: dev})
	require.NoError(t, err)
	dom, err := fab.OpenDomain(efa.DomainConfig{})
	require.NoError(t, err)
	return dom
}

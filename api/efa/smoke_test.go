package efa_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

type side struct {
	fab *efa.Fabric
	dom *efa.Domain
	av  *efa.AddressVector
	ep  *efa.Endpoint
}

func open(t testing.TB, dev efa.Device, dc efa.DomainConfig, ec efa.EndpointConfig) *side {
	fab, err := efa.Open(efa.Config{Device: dev})
	require.NoError(t, err)
	dom, err := fab.OpenDomain(dc)
	require.NoError(t, err)
	av := dom.NewAddressVector()
	ec.AV = av
	ep, err := dom.NewEndpoint(ec)
	require.NoError(t, err)
	require.NoError(t, ep.Enable(context.Background()))
	t.Cleanup(func() {
		require.NoError(t, ep.Close())
		require.NoError(t, dom.Close())
	})
	return &side{fab, dom, av, ep}
}

func TestSmoke(t *testing.T) {
	for _, mode := range []efa.Progress{efa.ProgressManual, efa.ProgressCooperative, efa.ProgressPinned} {
		t.Run(mode.String(), func(t *testing.T) {
			f, err := sim.New(sim.Config{InOrder: true})
			require.NoError(t, err)
			da, err := f.OpenDevice(sim.DeviceConfig{})
			require.NoError(t, err)
			db, err := f.OpenDevice(sim.DeviceConfig{})
			require.NoError(t, err)
			a := open(t, da, efa.DomainConfig{Progress: mode}, efa.EndpointConfig{})
			b := open(t, db, efa.DomainConfig{Progress: mode}, efa.EndpointConfig{})
			toB, err := a.av.Insert(b.ep.Address())
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			for _, n := range []int{0, 1, 8, 8000, 8761, 20000, 65536, 65537, 300000, 5 << 20} {
				p := make([]byte, n)
				for i := range p {
					p[i] = byte(i * 7)
				}
				done := make(chan error, 1)
				go func() { done <- a.ep.Send(ctx, toB, p) }()
				q := make([]byte, n)
				m, err := b.ep.Recv(ctx, q)
				require.NoError(t, err, n)
				require.Equal(t, n, m.N)
				require.True(t, bytes.Equal(p, q), n)
				require.NoError(t, <-done)
			}
		})
	}
}

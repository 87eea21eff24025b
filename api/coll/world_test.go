package coll_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
)

// party is ranks that are programs of one simulated world.
type party struct {
	world *efatest.World
	ranks []*rank
}

type rank struct {
	dev *efatest.Device
	fab *efa.Fabric
	dom *efa.Domain
	av  *efa.AddressVector
	ep  *efa.Endpoint
	cfg coll.Config
	// sent counts messages.
	sent *efa.Counter
}

// setup is the variable part of a party's configuration.
type setup struct {
	seed   uint64
	fabric sim.Config
	device sim.DeviceConfig
	coll   coll.Config
	ep     efa.EndpointConfig
	efa    efa.Telemetry
	// lower has most messages wait for their receiver: it reads them from 1 KiB on, if the
	// device can, and else all of more than a packet need a CTS.
	lower bool
}

// newParty makes p ranks on a fabric that shuffles.
func newParty(t testing.TB, p int, s setup) *party {
	w, err := efatest.New(efatest.Config{Seed: s.seed, Fabric: s.fabric, MaxTime: time.Hour})
	require.NoError(t, err)
	pa := &party{world: w}
	for range p {
		r := new(rank)
		r.dev, err = w.Device(s.device)
		require.NoError(t, err)
		r.fab, err = efa.Open(efa.Config{Device: r.dev, Telemetry: s.efa})
		require.NoError(t, err)
		r.dom, err = r.fab.OpenDomain(efa.DomainConfig{})
		require.NoError(t, err)
		cfg := s.ep
		if s.lower {
			cfg.Protocol.MinRead, cfg.Protocol.MaxMedium = 1<<10, -1
		}
		r.av = r.dom.NewAddressVector()
		r.sent = r.dom.NewCounter()
		cfg.AV, cfg.SendCounter = r.av, r.sent
		r.ep, err = r.dom.NewEndpoint(cfg)
		require.NoError(t, err)
		require.NoError(t, r.ep.Enable(context.Background()))
		r.cfg = s.coll
		r.cfg.Endpoint, r.cfg.Rank = r.ep, len(pa.ranks)
		r.cfg.Go = func(f func()) {
			w.Go("beside", func(context.Context) error {
				f()
				return nil
			})
		}
		pa.ranks = append(pa.ranks, r)
	}
	for _, r := range pa.ranks {
		for _, o := range pa.ranks {
			a, err := r.av.Insert(o.ep.Address())
			require.NoError(t, err)
			r.cfg.Peers = append(r.cfg.Peers, a)
		}
	}
	return pa
}

// run has all ranks run f on the group of all, and closes that.
func (pa *party) run(f func(ctx context.Context, c *coll.Comm) error) error {
	return pa.runAll(f, false)
}

// runAll is run. If the group is to fail, so is Close.
func (pa *party) runAll(f func(ctx context.Context, c *coll.Comm) error, fails bool) error {
	for i, r := range pa.ranks {
		pa.world.Go(fmt.Sprint("rank", i), func(ctx context.Context) error {
			c, err := coll.New(r.cfg)
			if err != nil {
				return err
			}
			if err := f(ctx, c); err != nil {
				return err
			}
			if err := c.Close(ctx); (err != nil) != fails {
				return fmt.Errorf("Close: %w", err)
			}
			return nil
		})
	}
	if err := pa.world.Run(); err != nil {
		return err
	}
	return pa.end()
}

// end closes everything: the group has left no memory behind, or the domain would not.
func (pa *party) end() error {
	for i, r := range pa.ranks {
		for _, c := range []interface{ Close() error }{r.ep, r.av, r.dom, r.fab} {
			if err := c.Close(); err != nil {
				return fmt.Errorf("rank%d, %T: %w", i, c, err)
			}
		}
	}
	return nil
}

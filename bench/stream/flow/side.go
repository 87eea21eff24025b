package flow

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/launch"
)

// Side is one of the two that a stream is between.
type Side struct {
	Rank     int // 0 sends, 1 receives, unless the plan is for both ways
	Domain   *efa.Domain
	Endpoint *efa.Endpoint
	Queue    *efa.Queue
	Peer     efa.Addr

	close func() error
}

// Open makes this process the side of its rank; the launcher's other process is the peer.
func Open(ctx context.Context, device string, mode efa.Progress) (*Side, error) {
	s := new(Side)
	cfg := s.launch(device, mode)
	g, err := cfg.Init(ctx)
	if err != nil {
		return nil, err
	}
	if g.Size != 2 {
		return nil, errors.Join(errors.New("a stream is between two processes"), g.Close())
	}
	s.Rank, s.Domain, s.Endpoint, s.Peer, s.close = g.Rank, g.Domain, g.Endpoint, g.Peers[1-g.Rank], g.Close
	return s, nil
}

// launch is how a side starts.
func (s *Side) launch(device string, mode efa.Progress) launch.Config {
	return launch.Config{
		Logger: quiet,
		Fabric: efa.Config{DeviceName: device, Logger: quiet},
		Domain: efa.DomainConfig{Progress: mode},
		Prepare: func(d *efa.Domain, cfg *efa.EndpointConfig) error {
			return s.configure(d, cfg)
		},
	}
}

var quiet = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))

// configure gives the endpoint one queue for everything, with room for all that a plan
// may have outstanding.
func (s *Side) configure(d *efa.Domain, cfg *efa.EndpointConfig) (err error) {
	s.Queue, err = d.NewQueue(2*maxWindow + 2)
	cfg.SendQueue, cfg.RecvQueue = s.Queue, s.Queue
	cfg.TxDepth = maxWindow + 2
	return err
}

// OpenSim makes both sides in this process, on a simulated fabric.
func OpenSim(ctx context.Context, mode efa.Progress) (sides [2]*Side, err error) {
	f, err := sim.New(sim.Config{InOrder: true})
	if err != nil {
		return sides, err
	}
	var avs [2]*efa.AddressVector
	for i := range sides {
		if sides[i], avs[i], err = openPort(ctx, f, mode); err != nil {
			return sides, err
		}
		sides[i].Rank = i
	}
	for i, s := range sides {
		if s.Peer, err = avs[i].Insert(sides[1-i].Endpoint.Address()); err != nil {
			return sides, err
		}
	}
	return sides, nil
}

func openPort(ctx context.Context, f *sim.Fabric, mode efa.Progress) (*Side, *efa.AddressVector, error) {
	dev, err := f.OpenDevice(sim.DeviceConfig{})
	if err != nil {
		return nil, nil, err
	}
	fab, err := efa.Open(efa.Config{Device: dev, Logger: quiet})
	if err != nil {
		return nil, nil, err
	}
	s := new(Side)
	if s.Domain, err = fab.OpenDomain(efa.DomainConfig{Progress: mode}); err != nil {
		return nil, nil, err
	}
	cfg := efa.EndpointConfig{AV: s.Domain.NewAddressVector()}
	if err := s.configure(s.Domain, &cfg); err != nil {
		return nil, nil, err
	}
	if s.Endpoint, err = s.Domain.NewEndpoint(cfg); err != nil {
		return nil, nil, err
	}
	s.close = func() error { return errors.Join(s.Endpoint.Close(), s.Domain.Close(), fab.Close()) }
	return s, cfg.AV, s.Endpoint.Enable(ctx)
}

// Close ends the side.
func (s *Side) Close() error { return s.close() }

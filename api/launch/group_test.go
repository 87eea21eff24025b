package launch

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/freeport"
	"github.com/efactor/efactor/internal/testenv"
)

var errStuck = errors.New("the queue pair is stuck")

// stuckDevice is one whose queue pairs do not close well.
type stuckDevice struct{ device.Device }

func (d stuckDevice) OpenQP(cfg device.QPConfig) (device.QP, error) {
	qp, err := d.Device.OpenQP(cfg)
	return stuckQP{qp}, err
}

type stuckQP struct{ device.QP }

func (q stuckQP) Close() error { return errors.Join(q.QP.Close(), errStuck) }

// TestCloseError: Close says what it could not close, also after it has waited in vain for an
// operation; that it has is no error.
func TestCloseError(t *testing.T) {
	defer func(d time.Duration) { linger = d }(linger)
	linger = 10 * time.Millisecond
	for _, want := range []error{nil, errStuck} {
		f, err := sim.New(sim.Config{})
		require.NoError(t, err)
		d, err := f.OpenDevice(sim.DeviceConfig{})
		require.NoError(t, err)
		dev := device.Device(d)
		if want != nil {
			dev = stuckDevice{d}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		g, err := Config{getenv: with(""), Fabric: efa.Config{Device: dev}}.Init(ctx)
		require.NoError(t, err)
		require.Contains(t, g.AddressVector.Name(g.Peers[0]), "rank 0")
		sent := make(chan error, 1)
		go func() { sent <- g.Endpoint.Send(ctx, g.Peers[0], []byte{1}, efa.Complete(efa.Delivered)) }() // nobody receives
		require.Eventually(t, func() bool {
			s, err := g.Endpoint.Snapshot(ctx)
			return err == nil && len(s.Operations) > 0
		}, time.Minute, time.Millisecond)
		if err := g.Close(); want != nil {
			require.ErrorIs(t, err, want)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
		} else {
			require.NoError(t, err)
		}
		require.ErrorIs(t, <-sent, efa.ErrClosed)
		require.NoError(t, d.Close())
	}
}

// TestPreparePanics: the other ranks need not wait for one whose Prepare does not return.
func TestPreparePanics(t *testing.T) {
	addr := net.JoinHostPort("127.0.0.1", itoa(freeport.Get(t)))
	ctx, cancel := context.WithTimeout(t.Context(), 5*testenv.Hang)
	defer cancel()
	errs := make([]error, 2)
	var all sync.WaitGroup
	for r := range errs {
		cfg := Config{
			Rank: r, Size: 2, LocalRank: r, LocalSize: 2, Rendezvous: addr, Fabric: efa.Config{DeviceName: "sim"},
			getenv: with(""), Timeout: 4 * testenv.Hang,
		}
		if r == 1 {
			cfg.Prepare = func(*efa.Domain, *efa.EndpointConfig) error { panic("no queues") }
		}
		all.Go(func() {
			defer func() { _ = recover() }()
			_, errs[r] = cfg.Init(ctx)
		})
	}
	all.Wait()
	var re *RankError
	require.ErrorAs(t, errs[0], &re)
	require.Equal(t, 1, re.Rank)
	require.ErrorContains(t, errs[0], errLeft.Error())
	require.NoError(t, errs[1], "its Init has not returned")
}

// TestRankNames: a rank is called by its number and its host, unless that could not be the name
// of a host.
func TestRankNames(t *testing.T) {
	require.Equal(t, []string{"rank 0 on node-7.example", "rank 1", "rank 2", "rank 3"}, rankNames([]greeting{
		{Host: "node-7.example 0a1b"}, {Host: " 0a1b"}, {Host: "x\n 1"}, {Host: strings.Repeat("x", 254) + " 1"},
	}))
}

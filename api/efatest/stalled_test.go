package efatest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
)

var stalledPeers = flag.Int("stalledpeers", 16, "how many peers TestStalledPeer has")

// TestStalledPeer: of many peers one stands still, and refuses all packets once its receives
// are used up. More sends to it than the send queue has places do not slow down those to the
// others.
func TestStalledPeer(t *testing.T) {
	calm, stalled := toOthers(t, *stalledPeers, false), toOthers(t, *stalledPeers, true)
	t.Logf("messages to the others: %d, with one that stands still: %d", calm, stalled)
	require.Greater(t, stalled, calm*9/10)
}

// toOthers is how many messages reach the peers but the first in 100 ms of simulated
// time. With stall, more sends to that one than the queue has places compete, and it stands still.
func toOthers(t *testing.T, peers int, stall bool) int {
	const queue, crowd, lasts = 64, 300, 100 * time.Millisecond
	w, err := efatest.New(efatest.Config{Seed: 3, Fabric: efatest.FabricConfig{Delay: 50 * time.Microsecond}})
	require.NoError(t, err)
	var devs []*efatest.Device
	var eps []*efa.Endpoint
	var to []efa.Addr
	for i := range peers + 1 {
		dev, err := w.Device(sim.DeviceConfig{})
		require.NoError(t, err)
		ep, err := efa.OpenEndpoint(t.Context(), efa.Setup{
			Fabric: efa.Config{Device: dev},
			Endpoint: efa.EndpointConfig{
				TxDepth: 2 * crowd, Protocol: efa.ProtocolConfig{SendQueue: queue, RecvQueue: 32},
			},
		})
		require.NoError(t, err)
		devs, eps = append(devs, dev), append(eps, ep)
		if i > 0 {
			addr, err := eps[0].AddressVector().Insert(ep.Address())
			require.NoError(t, err)
			to = append(to, addr)
		}
	}
	if stall {
		devs[1].Pause(lasts)
	}
	others := 0
	send := func(i int, count *int) {
		w.Go(fmt.Sprint("to ", i), func(ctx context.Context) error {
			for w.Elapsed() < lasts {
				if err := eps[0].Send(ctx, to[i], []byte("8 bytes.")); err != nil {
					return err
				}
				*count++
			}
			return nil
		})
	}
	var first int
	for range crowd {
		if stall {
			send(0, &first)
		}
	}
	for i := 1; i < peers; i++ {
		send(i, &others)
	}
	for _, ep := range eps[1:] {
		w.Go("receiver", func(ctx context.Context) error {
			for b := make([]byte, 8); ; {
				short, cancel := w.WithTimeout(ctx, 2*time.Second)
				_, err := ep.Recv(short, b)
				cancel()
				if err != nil {
					return nil
				}
			}
		})
	}
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	for _, ep := range eps {
		err = errors.Join(err, ep.Close())
	}
	require.NoError(t, err)
	return others
}

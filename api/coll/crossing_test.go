package coll_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/api/efa"
)

// TestCrossing: two ranks that send to each other at the same time do not wait for each
// other, whatever the size, though the buffers are such that a receiver reads them.
func TestCrossing(t *testing.T) {
	for _, lower := range []bool{false, true} {
		var p efa.ProtocolConfig
		if lower {
			p.MinRead, p.MaxMedium = 1<<10, -1
		}
		crossing(t, p)
	}
}

func crossing(t *testing.T, p efa.ProtocolConfig) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := "shm:" + filepath.Join(t.TempDir(), "fabric")
	var eps [2]*efa.Endpoint
	for i := range eps {
		var err error
		eps[i], err = efa.OpenEndpoint(ctx, efa.Setup{
			Fabric: efa.Config{DeviceName: dir}, Endpoint: efa.EndpointConfig{Protocol: p},
		})
		require.NoError(t, err)
	}
	rank := func(i int) error {
		ep := eps[i]
		peers, err := ep.AddressVector().InsertAll(eps[0].Address(), eps[1].Address())
		if err != nil {
			return err
		}
		c, err := coll.New(coll.Config{Endpoint: ep, Rank: i, Peers: peers})
		if err != nil {
			return err
		}
		mem, err := ep.Domain().Alloc(1<<20, 0)
		if err != nil {
			return err
		}
		defer mem.Close()
		for n := 1 << 12; n <= 1<<19; n *= 2 {
			for _, n := range []int{n - 1, n, n + 1} {
				sum := make([]byte, n)
				if err := coll.Allreduce(ctx, c, mem.Bytes()[:n], sum, coll.Sum); err != nil {
					return err
				}
			}
		}
		return c.Close(ctx)
	}
	other := make(chan error, 1)
	go func() { other <- rank(1) }()
	require.NoError(t, rank(0))
	require.NoError(t, <-other)
	for _, ep := range eps {
		require.NoError(t, ep.Close())
	}
}

package coll_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/api/efa"
)

// alone opens an endpoint on shared memory and makes it a group of its own.
func alone(t testing.TB) *coll.Comm {
	dir := filepath.Join(t.TempDir(), "fabric") // made by the device, with its own mode
	fab, err := efa.Open(efa.Config{DeviceName: "shm:" + dir})
	require.NoError(t, err)
	dom, err := fab.OpenDomain(efa.DomainConfig{})
	require.NoError(t, err)
	av := dom.NewAddressVector()
	ep, err := dom.NewEndpoint(efa.EndpointConfig{AV: av})
	require.NoError(t, err)
	require.NoError(t, ep.Enable(context.Background()))
	self, err := av.Insert(ep.Address())
	require.NoError(t, err)
	c, err := coll.New(coll.Config{Endpoint: ep, Peers: []efa.Addr{self}})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.Close(context.Background()))
		require.NoError(t, ep.Close())
		require.NoError(t, av.Close())
		require.NoError(t, dom.Close(), "nothing is left open")
		require.NoError(t, fab.Close())
	})
	return c
}

// BenchmarkCall is the cost of a collective before anything is sent.
func BenchmarkCall(b *testing.B) {
	c := alone(b)
	ctx := context.Background()
	buf := make([]float64, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := coll.Allreduce(ctx, c, buf, buf, coll.Sum); err != nil {
			b.Fatal(err)
		}
	}
}

func init() {
	jobs["allocations"] = func(ctx context.Context, c *coll.Comm, _ string) error {
		buf := make([]float64, 4)
		var err error
		once := func() {
			if e := coll.Allreduce(ctx, c, buf, buf, coll.Min); e != nil {
				err = e
			}
		}
		for range 1000 {
			once()
		}
		// Waits that park make some, and on a busy machine many do; not in all of the batches.
		least := testing.AllocsPerRun(50, once)
		for range 99 { // both ranks make as many calls
			least = min(least, testing.AllocsPerRun(50, once))
		}
		if least > .5 && err == nil && !raceEnabled { // then pools forget
			err = fmt.Errorf("%v allocations", least)
		}
		return err
	}
}

// TestAllocations: a small collective allocates nothing, unless it must sleep.
func TestAllocations(t *testing.T) {
	for _, p := range startProcesses(t, 2, "allocations", "") {
		out, err := p.wait()
		require.NoError(t, err, out)
	}
}

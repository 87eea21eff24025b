//go:build linux

package libfabric_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/uverbs"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/interop/efaemu/driver"
	"github.com/efactor/efactor/interop/efaemu/profile"
)

// openCard opens efactor's driver on an emulated EFA device on the world's fabric.
func (w *world) openCard(t *testing.T) efa.Device {
	t.Helper()
	fabric, err := shm.Open(shm.Config{Dir: w.dir})
	require.NoError(t, err)
	p := profile.Default()
	if w.env.device != "" {
		p, err = profile.Named(w.env.device)
		require.NoError(t, err)
	}
	p.RDMARead = w.env.rdma
	card, err := driver.New(fabric, p)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { card.Run(ctx) })
	w.endCard = func() error {
		cancel()
		running.Wait()
		return card.Close()
	}
	d, err := uverbs.Open(uverbs.Config{
		Path: "emulated", Kernel: card.System(), Unsolicited: !slices.Contains(w.env.env, solicitedAlone),
	})
	require.NoError(t, err)
	return d
}

// TestMatrixEFA plays scenarios of the table with efactor on the EFA device, too: both
// sides use the card, each by its own driver.
func TestMatrixEFA(t *testing.T) {
	need(t)
	free := particular()[0]
	free.name, free.only = writing.name, ""
	for _, e := range append(slices.Clone(settings), free) {
		if brief() && e.name != "RDMA read" && e.name != free.name || lf().before(e.since) {
			continue
		}
		e.card = true
		newRecord().table(t, e)
	}
}

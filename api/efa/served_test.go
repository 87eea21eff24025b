package efa_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// TestRMAEvents: each access that the target carries out gives one event, and moves its
// counter, and no other.
func TestRMAEvents(t *testing.T) {
	for name, dev := range map[string]sim.DeviceConfig{"plain": {}, "reads": devices["reads"]} {
		t.Run(name, func(t *testing.T) {
			f := newFabric(t, sim.Config{InOrder: true})
			mk := func(events bool) *side {
				d, err := f.OpenDevice(dev)
				require.NoError(t, err)
				dom := domainOn(t, d, efa.DomainConfig{})
				return newEndpoint(t, dom, efa.EndpointConfig{
					RMAEvents: events, RemoteWriteCounter: dom.NewCounter(), RemoteReadCounter: dom.NewCounter(), SendQueue: newQueue(t, dom, 0),
				})
			}
			a, b := mk(false), mk(true)
			introduce(t, a, b)
			ctx := testContext(t)
			m := alloc(t, b, 1<<17, remote)
			counts := map[string]*efa.Counter{
				"writes": b.ep.Config().RemoteWriteCounter, "reads": b.ep.Config().RemoteReadCounter,
			}
			want := map[string]uint64{}
			mem := a.ep.Memory(a.peer, m.Remote())
			dc := efa.Complete(efa.Delivered)
			const write, read = efa.AccessRemoteWrite, efa.AccessRemoteRead
			for _, x := range []struct {
				name   string
				do     func() error
				access efa.Access
				n      int
			}{
				{"eager write", func() error { return mem.Write(ctx, pattern(9)) }, write, 9},
				{"write of nothing", func() error { return mem.Write(ctx, nil) }, write, 0},
				{"DC eager write", func() error { return mem.Write(ctx, pattern(10), dc) }, write, 10},
				{"long write", func() error { return mem.Write(ctx, pattern(100_000)) }, write, 100_000},
				{"DC long write", func() error { return mem.Write(ctx, pattern(100_000), dc) }, write, 100_000},
				{"add", func() error { return efa.NewCell[uint32](mem).Add(ctx, 1) }, write, 4},
				{"DC add", func() error { return efa.NewCell[uint64](mem).Add(ctx, 1, dc) }, write, 8},
				{"fetch-add", func() error { return second(efa.NewCell[uint64](mem).FetchAdd(ctx, 1)) }, read, 8},
				{"load", func() error { return second(efa.NewCell[uint16](mem).Load(ctx)) }, read, 2},
				{"swap", func() error { return second(efa.NewCell[uint32](mem).CompareSwap(ctx, 1, 2)) }, read, 4},
				{"read", func() error { return mem.Read(ctx, make([]byte, 100)) }, read, 100},
				{"long read", func() error { return mem.Read(ctx, make([]byte, 100_000)) }, read, 100_000},
			} {
				if dev.RDMARead && (x.name == "read" || x.name == "long read") {
					continue // by the device, of which nobody hears
				}
				require.NoError(t, x.do(), x.name)
				ev, err := b.ep.NextEvent(ctx)
				require.NoError(t, err)
				require.Equal(t, []any{efa.RemoteServed, b.peer, x.n, x.access}, []any{ev.Kind, ev.Peer, ev.N, ev.Access}, x.name)
				kind := map[efa.Access]string{write: "writes", read: "reads"}[x.access]
				want[kind]++
				for name, c := range counts {
					ok, failed := c.Value()
					require.Equal(t, [2]uint64{want[name], 0}, [2]uint64{ok, failed}, "%s after %s", name, x.name)
				}
			}
			require.NoError(t, mem.Write(ctx, pattern(9), efa.Data(1)))
			ev, err := b.ep.NextEvent(ctx)
			require.NoError(t, err)
			require.Equal(t, efa.RemoteWritten, ev.Kind, "told once")
			require.NoError(t, counts["writes"].Wait(ctx, want["writes"]+1))

			// An endpoint without RMAEvents has nothing but the counter of reads.
			back := b.ep.Memory(b.peer, alloc(t, a, 100, remote).Remote())
			require.NoError(t, back.Write(ctx, pattern(9), dc))
			require.NoError(t, efa.NewCell[uint64](back).Add(ctx, 1, dc))
			_, err = efa.NewCell[uint64](back).FetchAdd(ctx, 1)
			require.NoError(t, err)
			_, some := a.ep.TryEvent()
			require.False(t, some)
			ok, _ := a.ep.Config().RemoteWriteCounter.Value()
			require.Zero(t, ok)
			// The answer may be here before its sender knows that it has arrived.
			require.NoError(t, a.ep.Config().RemoteReadCounter.Wait(ctx, 1))
		})
	}
}

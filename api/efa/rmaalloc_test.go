package efa_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
)

// TestRMAAllocations: operations of every subprotocol allocate nothing at either
// side, posted or blocking.
func TestRMAAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	both := sim.DeviceConfig{RDMARead: true, RDMAWrite: true, LocalKeys: true, UnsolicitedWrite: true, MaxRDMA: 10_000}
	reads := sim.DeviceConfig{RDMARead: true, LocalKeys: true}
	for name, dev := range map[string]sim.DeviceConfig{"plain": {}, "reads": reads, "both": both} {
		t.Run(name, func(t *testing.T) {
			a, b := lab{dev: dev, mode: efa.ProgressManual, ep: efa.EndpointConfig{Protocol: efa.ProtocolConfig{MinRead: 70_000, RuntSize: 10_000}}}.open(t)
			there, here := alloc(t, b, 1<<20, remote|efa.AccessRecv), alloc(t, a, 1<<20, 0).Bytes()
			ctx, at := context.Background(), there.Remote()
			var cs [4]efa.Completion
			steady := func(what string, one func()) {
				t.Helper()
				for range 100 {
					one()
				}
				require.Less(t, fewestAllocs(100, one), 0.1, what)
			}
			finish := func(q *efa.Queue, n int) {
				for n > 0 {
					k, err := q.Read(ctx, cs[:n])
					require.NoError(t, err)
					for _, c := range cs[:k] {
						require.NoError(t, c.Err)
					}
					n -= k
				}
			}
			for _, n := range []int{8, 20_000, 100_000} {
				for level, level1 := range []string{"", " delivered"} {
					level, name := efa.Delivered*efa.Level(level), level1
					write := efa.WriteReq{To: a.peer, At: at, Buf: here[:n], Level: level, HasData: true, Data: 3}
					steady("posted write"+name, func() {
						_, err := a.ep.PostWrite(&write)
						require.NoError(t, err)
						finish(a.ep.SendQueue(), 1)
						finish(b.ep.RecvQueue(), 1)
					})
					send, recv := efa.SendReq{To: a.peer, Buf: here[:n], Level: level}, efa.RecvReq{Buf: there.Bytes()[:n]}
					steady("posted send"+name, func() {
						_, err := b.ep.PostRecv(&recv)
						require.NoError(t, err)
						_, err = a.ep.PostSend(&send)
						require.NoError(t, err)
						finish(a.ep.SendQueue(), 1)
						finish(b.ep.RecvQueue(), 1)
					})
				}
				read := efa.ReadReq{From: a.peer, At: at, Buf: here[:n]}
				steady("posted read", func() {
					_, err := a.ep.PostRead(&read)
					require.NoError(t, err)
					finish(a.ep.SendQueue(), 1)
				})
				steady("write", func() { require.NoError(t, a.ep.Memory(a.peer, at).Write(ctx, here[:n], efa.Complete(efa.Delivered))) })
				steady("read", func() { require.NoError(t, a.ep.Memory(a.peer, at).Read(ctx, here[:n])) })
			}
			steady("injected write", func() {
				require.NoError(t, a.ep.Memory(a.peer, at).Write(ctx, here[:100], efa.Inject, efa.Data(1)))
				finish(b.ep.RecvQueue(), 1)
			})
			var x, y [2]uint64
			steady("atomics", func() {
				require.NoError(t, efa.NewCell[float64](a.ep.Memory(a.peer, at)).Add(ctx, 1.5, efa.Complete(efa.Delivered)))
				require.NoError(t, efa.NewCell[int8](a.ep.Memory(a.peer, at)).Store(ctx, int8(1), efa.Inject))
				require.NoError(t, second(efa.NewCell[uint64](a.ep.Memory(a.peer, at)).FetchAdd(ctx, uint64(1))))
				require.NoError(t, second(efa.NewCell[complex128](a.ep.Memory(a.peer, at)).Load(ctx)))
				require.NoError(t, second(efa.NewCell[int32](a.ep.Memory(a.peer, at)).CompareSwap(ctx, int32(1), 2)))
				require.NoError(t, efa.NewCell[uint64](a.ep.Memory(a.peer, at)).Fetch(ctx, amo.Max, x[:], y[:]))
			})
			req := efa.AtomicReq{To: a.peer, At: at, Op: amo.Sum, Form: amo.Fetch}
			req.Operand, req.Type = efa.Elements(x[:])
			req.Result, _ = efa.Elements(y[:])
			steady("posted atomic", func() {
				_, err := a.ep.PostAtomic(&req)
				require.NoError(t, err)
				finish(a.ep.SendQueue(), 1)
			})
			steady("peek", func() {
				if _, err := b.ep.Peek(ctx); !errors.Is(err, efa.ErrNoMessage) {
					t.Error(err)
				}
			})
		})
	}
}

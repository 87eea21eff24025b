package efa_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
)

// TestInitiate: an endpoint begins the operations of its Initiate and no others, by calls that
// wait and by requests that are posted.
func TestInitiate(t *testing.T) {
	kinds := []efa.Caps{efa.CapMessages, efa.CapRead, efa.CapWrite, efa.CapAtomic}
	for _, may := range append(kinds, 0, efa.CapNothing, efa.CapRead|efa.CapAtomic) {
		t.Run(may.String(), func(t *testing.T) {
			a, b := lab{ep: efa.EndpointConfig{Initiate: may}}.open(t)
			ctx := testContext(t)
			m := alloc(t, b, 64, efa.AccessRemoteRead|efa.AccessRemoteWrite)
			at := a.ep.Memory(a.peer, m.Remote())
			word := make([]byte, 8)
			for kind, calls := range map[efa.Caps][]func() error{
				efa.CapMessages: {
					func() error { return a.ep.Send(ctx, a.peer, word) },
					func() error { return a.ep.SendTag(ctx, a.peer, 1, word) },
					func() error { return a.ep.Send(ctx, a.peer, word, efa.Inject) },
					func() error { return second(a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: word})) },
				},
				efa.CapRead: {
					func() error { return at.Read(ctx, word) },
					func() error { return second(a.ep.PostRead(&efa.ReadReq{From: a.peer, At: m.Remote(), Buf: word})) },
				},
				efa.CapWrite: {
					func() error { return at.Write(ctx, word) },
					func() error { return second(a.ep.PostWrite(&efa.WriteReq{To: a.peer, At: m.Remote(), Buf: word})) },
				},
				efa.CapAtomic: {
					func() error { return second(efa.NewCell[uint64](at).FetchAdd(ctx, 1)) },
					func() error {
						return second(a.ep.PostAtomic(&efa.AtomicReq{To: a.peer, At: m.Remote(), Op: amo.Sum, Type: amo.Uint64, Operand: word}))
					},
				},
			} {
				for i, call := range calls {
					err := call()
					if may == 0 || may&kind != 0 {
						require.NoError(t, err, "%v %d", kind, i)
						continue
					}
					require.ErrorIs(t, err, efa.ErrNotSupported, "%v %d", kind, i)
					require.ErrorContains(t, err, "Initiate "+may.String())
				}
			}
			require.NoError(t, a.ep.Shutdown(ctx))
			require.ErrorIs(t, a.ep.Send(ctx, a.peer, word), efa.ErrClosed)
		})
	}
}

// TestTarget: what an endpoint is no target of is refused although the region allows it, with
// the error that a region without the right gives and an event; the rest goes on. Devices with
// and without RDMA.
func TestTarget(t *testing.T) {
	for name, dev := range map[string]sim.DeviceConfig{
		"packets": {}, "RDMA": {RDMARead: true, RDMAWrite: true, UnsolicitedWrite: true, MinReadWrite: 1, MinRead: 1},
	} {
		for _, may := range []efa.Caps{efa.CapRead, efa.CapWrite, efa.CapAtomic, efa.CapNothing, efa.CapRead | efa.CapAtomic, 0} {
			t.Run(name+" "+may.String(), func(t *testing.T) {
				a, b := lab{dev: dev, ep: efa.EndpointConfig{Target: may}}.open(t)
				ctx := testContext(t)
				m := alloc(t, b, 1<<16, efa.AccessRemoteRead|efa.AccessRemoteWrite)
				copy(m.Bytes(), "before")
				at := a.ep.Memory(a.peer, m.Remote())
				for _, n := range []int{8, 1 << 16} {
					buf := make([]byte, n)
					for kind, call := range map[efa.Caps]func() error{
						efa.CapRead:   func() error { return at.Read(ctx, buf) },
						efa.CapWrite:  func() error { return at.Write(ctx, buf, efa.Complete(efa.Delivered)) },
						efa.CapAtomic: func() error { return second(efa.NewCell[uint64](at).FetchAdd(ctx, 0)) },
					} {
						err := call()
						if may == 0 || may&kind != 0 {
							require.NoError(t, err, "%v", kind)
							continue
						}
						require.ErrorIs(t, err, efa.ErrAccess, "%v", kind)
						ev, err := b.ep.NextEvent(ctx)
						require.NoError(t, err)
						for ev.Kind == efa.NewPeer {
							ev, err = b.ep.NextEvent(ctx)
							require.NoError(t, err)
						}
						require.Equal(t, efa.AccessRefused, ev.Kind)
						require.ErrorIs(t, ev.Err, efa.ErrAccess)
						require.ErrorContains(t, ev.Err, "no target")
					}
				}
				if may != 0 && may&efa.CapWrite == 0 {
					require.Equal(t, "before", string(m.Bytes()[:6]))
				}
				c := b.ep.Config()
				require.Equal(t, may != 0 && may&efa.CapRead == 0, c.Protocol.NoRDMARead)
				require.Equal(t, may != 0 && may&efa.CapWrite == 0, c.Protocol.NoRDMAWrite)
				require.Equal(t, may, c.Target)

				// Messages are not meant by it, whatever way they go.
				long := make([]byte, 1<<21)
				op := start(t, a, &efa.SendReq{To: a.peer, Buf: long})
				require.NoError(t, second(b.ep.Recv(ctx, make([]byte, 1<<21))))
				done(t, op)
			})
		}
	}
}

// TestCapsRefused: what cannot be had is an error that says so.
func TestCapsRefused(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{})
	for _, x := range []struct {
		cfg  efa.EndpointConfig
		want error
		text string
	}{
		{efa.EndpointConfig{Initiate: efa.CapNothing << 1}, efa.ErrInvalid, "Initiate has"},
		{efa.EndpointConfig{Target: efa.CapDirected}, efa.ErrInvalid, "Target has directed"},
		{efa.EndpointConfig{Target: efa.CapNothing | efa.CapRead}, efa.ErrInvalid, "Target is read|nothing"},
		{efa.EndpointConfig{Target: efa.CapRead, Direct: true}, efa.ErrNotSupported, "Target of a direct endpoint"},
	} {
		_, err := dom.NewEndpoint(x.cfg)
		require.ErrorIs(t, err, x.want)
		require.ErrorContains(t, err, x.text)
	}
	require.Equal(t, "messages|0x8000", (efa.CapMessages | 1<<15).String())
}

package efa_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
	"github.com/efactor/efactor/wire"
)

// TestBadHandle: an unknown handle, and one that was removed, is an error of the call, and
// takes no place.
func TestBadHandle(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			dom := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{Progress: mode})
			q := newQueue(t, dom, 2)
			s := newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q, TxDepth: 1, RxDepth: 1})
			mem, err := dom.Alloc(64, efa.AccessRemoteRead|efa.AccessRemoteWrite)
			require.NoError(t, err)
			defer func() { require.NoError(t, mem.Close()) }()
			at, ctx := mem.Remote(), testContext(t)
			removed, err := s.av.Insert(simAddress(5))
			require.NoError(t, err)
			require.NoError(t, s.av.Remove(ctx, removed))
			for _, to := range []efa.Addr{removed, 77, 1 << 40, efa.NoAddr, efa.AnyAddr} {
				bad := func(err error) {
					t.Helper()
					require.ErrorIs(t, err, efa.ErrInvalid)
				}
				for range 3 {
					bad(s.ep.Send(ctx, to, nil))
					bad(s.ep.Send(ctx, to, nil, efa.Inject))
					bad(s.ep.SendTag(ctx, to, 1, []byte{1}, efa.Inject))
					_, err := s.ep.PostSend(&efa.SendReq{To: to})
					bad(err)
					_, err = s.ep.PostSend(&efa.SendReq{To: to, Buf: []byte{1}, Inject: true, Quiet: true})
					bad(err)
					n, err := s.ep.PostSends([]efa.SendReq{{To: to}, {To: to}})
					for ; errors.Is(err, efa.ErrAgain); n, err = s.ep.PostSends([]efa.SendReq{{To: to}, {To: to}}) {
						require.Zero(t, n) // the place of the call before is given back at the end of a turn
					}
					require.Zero(t, n)
					bad(err)
					_, err = s.ep.Start(&efa.SendReq{To: to})
					bad(err)
					_, err = s.ep.PostWrite(&efa.WriteReq{To: to, At: at, Buf: []byte{1}})
					require.Error(t, err)
					_, err = s.ep.PostRead(&efa.ReadReq{From: to, At: at, Buf: make([]byte, 1)})
					require.Error(t, err)
					require.Error(t, s.ep.Memory(to, at).Write(ctx, []byte{1}))
					require.Error(t, s.ep.Memory(to, at).Write(ctx, []byte{1}, efa.Inject))
					require.Error(t, s.ep.Memory(to, at).Read(ctx, make([]byte, 1)))
					_, err = s.ep.PostAtomic(&efa.AtomicReq{To: to, At: at, Op: amo.Sum, Type: wire.DatatypeUint64, Operand: make([]byte, 8)})
					require.Error(t, err)
					if to == efa.AnyAddr {
						continue // a receive from everybody
					}
					_, err = s.ep.PostRecv(&efa.RecvReq{From: to, Directed: true})
					bad(err)
					n, err = s.ep.PostRecvs([]efa.RecvReq{{From: to, Directed: true}})
					require.Zero(t, n)
					bad(err)
					_, err = s.ep.Recv(ctx, nil, efa.From(to))
					bad(err)
				}
			}
			require.Zero(t, q.TryRead(make([]efa.Completion, 2)), "no completion")
			self, err := s.av.Insert(s.ep.Address())
			require.NoError(t, err)
			require.NoError(t, s.ep.Send(ctx, self, []byte{1}), "the places are free")
		})
	}
}

package efa_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// TestProgressWithoutCalls: ofiwg/libfabric#7313 in real time. In each mode of progress a
// receiver whose program makes no call after it posted a receive answers HANDSHAKE,
// receives, and serves what others write and read.
func TestProgressWithoutCalls(t *testing.T) {
	for _, mode := range []efa.Progress{efa.ProgressPinned, efa.ProgressManual, efa.ProgressCooperative} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			ctx := testContext(t)
			f := newFabric(t, sim.Config{})
			a := open(t, newDevice(t, f), efa.DomainConfig{})
			dom := domainOn(t, newDevice(t, f), efa.DomainConfig{Progress: mode})
			b := newEndpoint(t, dom, efa.EndpointConfig{RecvQueue: newQueue(t, dom, 8)})
			introduce(t, a, b)
			m, err := b.dom.Alloc(100_000, efa.AccessRemoteRead|efa.AccessRemoteWrite)
			require.NoError(t, err)
			defer func() { require.NoError(t, m.Close()) }()
			_, err = b.ep.PostRecv(&efa.RecvReq{Buf: make([]byte, 100_000)})
			require.NoError(t, err)

			require.NoError(t, a.ep.Send(ctx, a.peer, make([]byte, 100_000), efa.Complete(efa.Delivered)))
			at := a.ep.Memory(a.peer, m.Remote())
			require.NoError(t, at.Write(ctx, make([]byte, 100_000), efa.Complete(efa.Delivered)))
			require.NoError(t, at.Read(ctx, make([]byte, 100_000)))
		})
	}
}

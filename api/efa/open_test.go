package efa_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// TestOpenEndpoint: one call makes all, and Close closes all, or says what is in use and
// does it when called again.
func TestOpenEndpoint(t *testing.T) {
	ctx := testContext(t)
	ep, err := efa.OpenEndpoint(ctx, efa.Setup{Fabric: efa.Config{DeviceName: "shm:" + filepath.Join(t.TempDir(), "fabric")}})
	require.NoError(t, err)
	require.Same(t, ep.SendQueue(), ep.RecvQueue())
	self, err := ep.AddressVector().Insert(ep.Address())
	require.NoError(t, err)
	_, err = ep.PostSend(&efa.SendReq{To: self, Token: 3})
	require.NoError(t, err)
	_, err = ep.Recv(ctx, nil)
	require.NoError(t, err)
	_, err = ep.PostRecv(&efa.RecvReq{Token: 4})
	require.NoError(t, err)
	dom := ep.Domain()
	mem, err := dom.Alloc(100, 0)
	require.NoError(t, err)
	require.ErrorIs(t, ep.Close(), efa.ErrBusy, "there is memory")
	require.ErrorIs(t, ep.Send(ctx, self, nil), efa.ErrClosed)
	require.NoError(t, mem.Close())
	require.NoError(t, ep.Close())
	require.NoError(t, ep.Close())
	require.ErrorIs(t, second(dom.Fabric().OpenDomain(efa.DomainConfig{})), efa.ErrClosed)
	require.ErrorIs(t, second(ep.AddressVector().Insert(ep.Address())), efa.ErrClosed)
	var cs [4]efa.Completion
	require.Equal(t, 2, ep.SendQueue().TryRead(cs[:]), "outcomes are there after Close")
	require.ErrorIs(t, cs[1].Err, efa.ErrClosed)
}

// TestOpenEndpointFails: what was made before a failure is closed.
func TestOpenEndpointFails(t *testing.T) {
	dev, err := efa.OpenDevice("shm:" + filepath.Join(t.TempDir(), "fabric"))
	require.NoError(t, err)
	fabric := efa.Config{Device: dev}
	for _, s := range []efa.Setup{
		{Fabric: efa.Config{DeviceName: "no such"}},
		{Fabric: fabric, Domain: efa.DomainConfig{Shards: -1}},
		{Fabric: fabric, Endpoint: efa.EndpointConfig{TxDepth: -1}},
	} {
		_, err := efa.OpenEndpoint(t.Context(), s)
		require.ErrorIs(t, err, efa.ErrInvalid)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = efa.OpenEndpoint(ctx, efa.Setup{Fabric: fabric})
	require.ErrorIs(t, err, context.Canceled)
	ep, err := efa.OpenEndpoint(t.Context(), efa.Setup{Fabric: fabric, Endpoint: efa.EndpointConfig{TxDepth: 2}})
	require.NoError(t, err)
	require.NoError(t, ep.Close())
	require.NoError(t, dev.Close(), "it was given, and nothing is open on it")
}

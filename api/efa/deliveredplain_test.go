//go:build linux

package efa_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// TestDeliveredPlain: where plain memory is not read, a write that has to be delivered asks whether the peer knows delivery complete all the same.
func TestDeliveredPlain(t *testing.T) {
	dev, err := efa.OpenDevice("shm:" + filepath.Join(t.TempDir(), "fabric"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	dom := domainOn(t, dev, efa.DomainConfig{})
	ours := newEndpoint(t, dom, efa.EndpointConfig{})
	theirs := newEndpoint(t, dom, efa.EndpointConfig{Protocol: ofEra("1.10", efa.ProtocolConfig{})})
	introduce(t, ours, theirs)
	for _, n := range []int{100, 12_000, 65_536, 1 << 20} {
		there := alloc(t, theirs, n, remote)
		op := start(t, ours, &efa.WriteReq{To: ours.peer, At: there.Remote(), Buf: pattern(n), Level: efa.Delivered})
		_, err := op.Wait(testContext(t))
		require.ErrorIs(t, err, efa.ErrNotSupported, n)
	}
}

//go:build linux

package efa_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/spans"
)

// TestSpansNamePeers: spans have the peer's name, handle and address as errors and the debug page
// have them, and tags in hexadecimal; of a peer that was removed they have what it was called.
func TestSpansNamePeers(t *testing.T) {
	var log spans.Log
	near, err := shm.Open(shm.Config{Dir: filepath.Join(t.TempDir(), "fabric")})
	require.NoError(t, err)
	dev, err := efa.JoinDevices(newDevice(t, newFabric(t, sim.Config{InOrder: true})), near)
	require.NoError(t, err)
	fab, err := efa.Open(efa.Config{Device: dev, Telemetry: efa.Telemetry{TracerProvider: log.Provider()}})
	require.NoError(t, err)
	dom, err := fab.OpenDomain(efa.DomainConfig{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, dom.Close())
		require.NoError(t, fab.Close())
		require.NoError(t, dev.Close())
	})
	a, b := newEndpoint(t, dom, efa.EndpointConfig{Name: "storage"}), newEndpoint(t, dom, efa.EndpointConfig{})
	onShm, ok := b.ep.Address().Raw("shm")
	require.True(t, ok)
	introduce(t, a, b)
	only, err := a.av.InsertNamed(efa.NewAddress("shm", onShm), "the same by way of shm")
	require.NoError(t, err)
	require.NoError(t, a.av.SetName(a.peer, "rank 1 on node7"))
	ctx := testContext(t)
	exchange := func(to efa.Addr, tag uint64) {
		op := start(t, b, &efa.RecvReq{Buf: make([]byte, 8), Tagged: true, Tag: tag})
		require.NoError(t, a.ep.SendTag(ctx, to, tag, make([]byte, 8)))
		done(t, op)
	}
	take := func() (send, recv func(string) string) {
		fab.FlushTelemetry()
		for _, s := range log.Take() {
			get := func(key string) string {
				for _, kv := range s.Attributes() {
					if string(kv.Key) == key {
						return kv.Value.String()
					}
				}
				return ""
			}
			switch s.Name() {
			case "send":
				send = get
			case "receive":
				recv = get
			}
		}
		require.NotNil(t, send)
		require.NotNil(t, recv)
		return send, recv
	}
	first := func(a efa.Address) string { return strings.Split(a.String(), ";")[0] }

	exchange(a.peer, 0xABC)
	send, recv := take()
	require.Equal(t, "rank 1 on node7", send("efa.peer.name"))
	require.Equal(t, fmt.Sprint(uint64(a.peer)), send("efa.peer.handle"))
	require.Equal(t, first(b.ep.Address()), send("efa.peer.address"))
	require.Equal(t, "storage", send("efa.endpoint"))
	require.Equal(t, "0xabc", send("efa.message.tag"))
	require.Empty(t, recv("efa.peer.name"), "it has none")
	require.Empty(t, recv("efa.endpoint"))
	require.Equal(t, fmt.Sprint(uint64(b.peer)), recv("efa.peer.handle"))
	require.Equal(t, first(a.ep.Address()), recv("efa.peer.address"))
	require.Equal(t, "0xabc", recv("efa.message.tag"))

	require.NoError(t, a.av.SetName(a.peer, "bob"))
	exchange(only, 1)
	send, _ = take()
	require.Equal(t, "the same by way of shm", send("efa.peer.name"))
	require.Equal(t, efa.NewAddress("shm", onShm).String(), send("efa.peer.address"))
	exchange(a.peer, 2)
	send, _ = take()
	require.Equal(t, "bob", send("efa.peer.name"), "its name of now")

	exchange(a.peer, 3)
	require.NoError(t, a.av.Remove(ctx, a.peer))
	send, _ = take()
	require.Equal(t, "bob", send("efa.peer.name"), "it was that when it sent")
}

package efa_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// waits gives what the operations of an endpoint wait for, by their kind.
func waits(t *testing.T, ep *efa.Endpoint) map[string]string {
	t.Helper()
	s, err := ep.Snapshot(testContext(t))
	require.NoError(t, err)
	w := map[string]string{}
	for _, o := range s.Operations {
		w[o.Kind] = o.Waits
		require.GreaterOrEqual(t, o.Age, o.Still)
	}
	return w
}

// TestSnapshot: what is stuck says on what.
func TestSnapshot(t *testing.T) {
	a, b := lab{}.open(t)
	ctx := testContext(t)
	q := newQueue(t, a.dom, 16)
	s := newEndpoint(t, a.dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q})
	to, err := s.av.Insert(b.ep.Address())
	require.NoError(t, err)

	_, err = s.ep.PostRecv(&efa.RecvReq{Buf: make([]byte, 8)})
	require.NoError(t, err)
	_, err = s.ep.PostSend(&efa.SendReq{To: to, Buf: make([]byte, 1<<20), Tag: 42, Tagged: true})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return waits(t, b.ep)["unexpected message"] != "" && waits(t, s.ep)["send"] == "CTS"
	}, time.Minute, time.Millisecond)
	require.Equal(t, "a message that matches", waits(t, s.ep)["receive"])
	require.Equal(t, "a receive that matches", waits(t, b.ep)["unexpected message"])

	snap, err := b.ep.Snapshot(ctx)
	require.NoError(t, err)
	require.Len(t, snap.Peers, 1)
	require.Equal(t, "ready", snap.Peers[0].State)
	require.Equal(t, "both", snap.Peers[0].Handshake)
	require.Equal(t, 1, snap.Peers[0].Operations)
	require.Equal(t, 1, snap.Queues.Unexpected)
	op := snap.Operations[0]
	require.Equal(t, uint64(42), *op.Tag)
	require.Equal(t, uint64(1<<20), op.Bytes)
	require.Equal(t, snap.Peers[0].Address, op.Peer)
	text, err := json.Marshal(snap)
	require.NoError(t, err)
	var back efa.Snapshot
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, snap.Operations, back.Operations)

	_, err = b.ep.RecvTag(ctx, efa.Match{Tag: 42}, make([]byte, 1<<20))
	require.NoError(t, err)
	// The receiver may be done before the sender has polled the completions of its last packets.
	require.Eventually(t, func() bool { return waits(t, s.ep)["send"] == "" }, time.Minute, time.Millisecond)
}

//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// TestReply: on a card, too, a stranger can be answered, and is known by a handle then.
func TestReply(t *testing.T) {
	if os.Getenv(onCard) == "" {
		needFeatures(t)
		t.Setenv(onCard, "1")
		status, text, log := efaemu(t, "run", "-v", "-profile", "rdma-write", fabric(t), "--",
			os.Args[0], "-test.run", "^TestReply$", "-test.v", "-test.timeout", "2m")
		require.Zero(t, status, "%s%s", text, log)
		require.Regexp(t, `(?m)^--- PASS: TestReply `, text)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	mk := func() *efa.Endpoint {
		ep, err := efa.OpenEndpoint(ctx, efa.Setup{Fabric: efa.Config{DeviceName: "efa"}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, ep.Close()) })
		return ep
	}
	server, client := mk(), mk()
	to, err := client.AddressVector().Insert(server.Address())
	require.NoError(t, err)
	answer := make([]byte, 100_000)
	answer[99_999] = 7
	for _, want := range []efa.Addr{efa.NoAddr, 0} {
		failed := make(chan error, 1)
		go func() { failed <- client.Send(ctx, to, []byte("ask")) }()
		m, err := server.Recv(ctx, make([]byte, 8))
		require.NoError(t, err)
		require.NoError(t, <-failed)
		require.Equal(t, want, m.From)
		go func() { failed <- server.Reply(ctx, m, answer) }()
		buf := make([]byte, len(answer))
		got, err := client.Recv(ctx, buf)
		require.NoError(t, err)
		require.NoError(t, <-failed)
		require.Equal(t, answer, buf[:got.N])
		require.Equal(t, to, got.From)
	}
}

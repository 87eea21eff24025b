//go:build linux

package libfabric_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/interop/libfabric/party"
)

// TestMultiRecv: libfabric sends messages of all subprotocols, tagged and not, into one buffer of
// efactor's, and then more to Next.
func TestMultiRecv(t *testing.T) {
	need(t)
	for _, e := range settings[:2] {
		t.Run(e.name, func(t *testing.T) {
			w := newWorld(t, e)
			defer func() { require.NoError(t, w.stop()) }()
			for _, tagged := range []bool{false, true} {
				manyFrom(t, w, tagged)
				nextFrom(t, w, tagged)
			}
		})
	}
}

var manySizes = []int{100, 70_000, 0, 20_000, 300_000, 8, 8000, 65_536}

// sendMany has libfabric begin to send messages of manySizes, the i-th with the seed i+1.
func sendMany(t *testing.T, ctx context.Context, w *world, tagged bool) []*party.Pending {
	var sends []*party.Pending
	for i, n := range manySizes {
		p, err := w.lf.Start(ctx, party.Op{
			Kind: party.Send, Peer: w.toOwn, Tagged: tagged, Tag: uint64(i), Size: n, Seed: i + 1, Registered: true,
			HasData: true, Data: uint64(i),
		})
		require.NoError(t, err)
		sends = append(sends, p)
	}
	return sends
}

func manyFrom(t *testing.T, w *world, tagged bool) {
	ctx, cancel := context.WithTimeout(context.Background(), scenarioTime)
	defer cancel()
	buf := make([]byte, 600_000)
	out, release, err := w.node.Many(&efa.RecvReq{Buf: buf, Tagged: tagged, Ignore: ^uint64(0), MinLeft: 1})
	require.NoError(t, err)
	next := func() efa.Completion {
		select {
		case c := <-out:
			return c
		case <-ctx.Done():
			require.FailNow(t, "no completion", "%s", w)
			return efa.Completion{}
		}
	}
	sends := sendMany(t, ctx, w, tagged)
	where := make(map[uint64]int)
	for range manySizes {
		c := next()
		require.NoError(t, c.Err)
		n := manySizes[c.Data]
		require.Equal(t, []any{efa.Received, n, efa.Addr(w.toLF), tagged}, []any{c.Kind, c.N, c.From, c.Tagged})
		whole(t, buf[c.Offset:][:n], int(c.Data)+1)
		where[c.Data] = c.Offset
	}
	at := 0
	for i, n := range manySizes {
		require.Equal(t, at, where[uint64(i)], "message %d", i)
		at += (n + efa.MultiRecvAlign - 1) / efa.MultiRecvAlign * efa.MultiRecvAlign
	}
	allSent(t, ctx, sends)
	require.NoError(t, release())
	c := next()
	require.Equal(t, []any{efa.Released, at}, []any{c.Kind, c.N})
	require.ErrorIs(t, c.Err, efa.ErrCanceled)
}

func nextFrom(t *testing.T, w *world, tagged bool) {
	ctx, cancel := context.WithTimeout(context.Background(), scenarioTime)
	defer cancel()
	sends := sendMany(t, ctx, w, tagged)
	for i, n := range manySizes {
		d, err := w.node.Next(ctx, tagged)
		require.NoError(t, err, "%s", w)
		require.Equal(t, []any{n, uint64(i), efa.Addr(w.toLF)}, []any{d.N, d.Data, d.From})
		whole(t, d.Body, i+1)
		d.Release()
	}
	allSent(t, ctx, sends)
}

func allSent(t *testing.T, ctx context.Context, sends []*party.Pending) {
	for i, p := range sends {
		out, err := p.Wait(ctx)
		require.NoError(t, err, "message %d", i)
		require.NoError(t, out.Err(), "message %d", i)
	}
}

// whole checks the contents of a message.
func whole(t *testing.T, p []byte, seed int) {
	t.Helper()
	want := make([]byte, len(p))
	party.Fill(want, 0, seed)
	require.True(t, string(want) == string(p), "%d bytes of seed %d", len(p), seed)
}

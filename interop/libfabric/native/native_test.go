package native_test

import (
	"context"
	"encoding/binary"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/interop/libfabric/native"
	"github.com/efactor/efactor/interop/libfabric/party"
	"github.com/efactor/efactor/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is two nodes on one fabric that know each other.
func pair(t *testing.T) (ctx context.Context, a, b *native.Node, toB, toA party.Peer) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	dir := filepath.Join(t.TempDir(), "fabric")
	nodes := [2]*native.Node{}
	for i := range nodes {
		n, err := native.New(native.Config{Device: "shm:" + dir, SameQPN: true})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, n.Stop()) })
		require.NoError(t, n.Open(ctx))
		nodes[i] = n
	}
	a, b = nodes[0], nodes[1]
	toB, err := a.Insert(ctx, b.Address())
	require.NoError(t, err)
	toA, err = b.Insert(ctx, a.Address())
	require.NoError(t, err)
	return ctx, a, b, toB, toA
}

func start(t *testing.T, ctx context.Context, x party.Party, op party.Op) *party.Pending {
	t.Helper()
	p, err := x.Start(ctx, op)
	require.NoError(t, err)
	return p
}

func done(t *testing.T, ctx context.Context, p *party.Pending) party.Outcome {
	t.Helper()
	out, err := p.Wait(ctx)
	require.NoError(t, err)
	require.NoError(t, out.Err(), "%v", p.Op)
	return out
}

func TestMessages(t *testing.T) {
	ctx, a, b, toB, toA := pair(t)
	for i, op := range []party.Op{
		{Size: 0},
		{Size: 3000, Pieces: 3},
		{Size: 200000, Registered: true},
		{Size: 100, HasData: true, Data: 77, Tagged: true, Tag: 5},
		{Size: 30, Inject: true},
		{Size: 300, Level: party.Delivered},
	} {
		op.Kind, op.Peer, op.Seed = party.Send, toB, i
		r := start(t, ctx, b, party.Op{
			Kind: party.Recv, Directed: i%2 == 0, Peer: toA, Tagged: op.Tagged, Tag: op.Tag, Size: op.Size + 1,
			Pieces: 2, Registered: i%2 == 1,
		})
		done(t, ctx, start(t, ctx, a, op))
		out := done(t, ctx, r)
		require.Equal(t, op.Size, out.N)
		require.NoError(t, out.Content.Whole(i, op.Size))
		require.Equal(t, op.HasData, out.HasData)
		require.Equal(t, op.Data, out.Data)
		require.Equal(t, op.Tag, out.Tag)
		require.Equal(t, toA, out.From)
	}
}

func TestFailures(t *testing.T) {
	ctx, a, b, toB, _ := pair(t)
	r := start(t, ctx, b, party.Op{Kind: party.Recv, Size: 100})
	done(t, ctx, start(t, ctx, a, party.Op{Kind: party.Send, Peer: toB, Size: 150, Seed: 9}))
	out, err := r.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, int(efa.ErrTruncated), out.Errno)
	require.Equal(t, 50, out.Lost)
	require.NoError(t, out.Content.Whole(9, 100))

	r = start(t, ctx, b, party.Op{Kind: party.Recv, Tagged: true, Tag: 1, Size: 100, Registered: true})
	require.NoError(t, b.Cancel(ctx, r))
	out, err = r.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, int(efa.ErrCanceled), out.Errno)

	require.ErrorIs(t, b.Open(ctx), efa.ErrBadState)
	before := b.Address()
	r = start(t, ctx, b, party.Op{Kind: party.Recv, Size: 1})
	require.NoError(t, b.Close(ctx))
	out, err = r.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, int(efa.ErrClosed), out.Errno)
	_, err = b.Start(ctx, party.Op{Kind: party.Recv})
	require.ErrorIs(t, err, efa.ErrBadState)
	require.NoError(t, b.Open(ctx))
	require.Equal(t, wire.RawAddr(before).QPN(), wire.RawAddr(b.Address()).QPN())
}

func TestLooking(t *testing.T) {
	ctx, a, b, toB, _ := pair(t)
	look := func(k party.Kind) *party.Pending { return start(t, ctx, b, party.Op{Kind: k, Tagged: true, Tag: 3}) }
	miss := func(p *party.Pending) {
		t.Helper()
		out, err := p.Wait(ctx)
		require.NoError(t, err)
		require.Equal(t, int(efa.ErrNoMessage), out.Errno)
	}
	send := func(size int) {
		done(t, ctx, start(t, ctx, a, party.Op{Kind: party.Send, Peer: toB, Tagged: true, Tag: 3, Size: size, Seed: size}))
	}
	miss(look(party.Peek))
	send(100)
	for ctx.Err() == nil { // it is on its way, though its sender is done with it
		if out, err := look(party.Peek).Wait(ctx); err == nil && out.Errno == 0 {
			break
		}
	}
	require.Equal(t, 100, done(t, ctx, look(party.Peek)).N)
	claim := look(party.Claim)
	require.Equal(t, 100, done(t, ctx, claim).N)
	miss(look(party.Peek))
	out := done(t, ctx, start(t, ctx, b, party.Op{Kind: party.Take, Of: claim, Size: 150}))
	require.NoError(t, out.Content.Whole(100, 100))

	send(200)
	for ctx.Err() == nil {
		if out, err := look(party.Discard).Wait(ctx); err == nil && out.Errno == 0 {
			require.Equal(t, 200, out.N)
			break
		}
	}
	miss(look(party.Peek))
}

func TestMemory(t *testing.T) {
	ctx, a, b, toB, toA := pair(t)
	const window, most, n = 5, 20000, 80
	nodes, regions := [2]*native.Node{a, b}, [2]party.Region{}
	for i, x := range nodes {
		var err error
		regions[i], err = x.Region(ctx, party.FloodRegion(window, most), party.AccessAll)
		require.NoError(t, err)
		require.NoError(t, regions[i].Set(ctx, window*most, make([]byte, 8)))
	}
	peers, floods := [2]party.Peer{toB, toA}, [2]*party.Pending{}
	for i, x := range nodes {
		var err error
		floods[i], err = x.Flood(ctx, party.Flood{
			Number: 1, Peer: peers[i], Seed: uint64(i), PeerSeed: uint64(1 - i), N: n, PeerN: n, Window: window, Max: most,
			Inject: a.MaxInject(), RMA: true, At: regions[1-i].Remote(),
		})
		require.NoError(t, err)
	}
	for i := range nodes {
		done(t, ctx, floods[i])
		sum, err := regions[i].Get(ctx, window*most, 8)
		require.NoError(t, err)
		require.Equal(t, party.Additions(uint64(1-i), n, most, a.MaxInject()), binary.LittleEndian.Uint64(sum))
	}

	at := regions[1].Remote()
	require.NoError(t, regions[1].Clear(ctx))
	done(t, ctx, start(t, ctx, a, party.Op{Kind: party.Write, Peer: toB, At: at, Size: 300, Seed: 4, HasData: true, Data: 9}))
	notice := <-b.Notices()
	require.Equal(t, uint64(9), notice.Data)
	require.Equal(t, 300, notice.N)
	c, err := regions[1].Check(ctx, 0, 300)
	require.NoError(t, err)
	require.NoError(t, c.Whole(4, 300))
	out := done(t, ctx, start(t, ctx, a, party.Op{Kind: party.Read, Peer: toB, At: at, Size: 300, Pieces: 2}))
	require.NoError(t, out.Content.Whole(4, 300))

	require.NoError(t, regions[1].Set(ctx, 0, []byte{1, 2, 3, 4}))
	out = done(t, ctx, start(t, ctx, a, party.Op{
		Kind: party.Compare, Peer: toB, At: at, Type: wire.DatatypeUint8, AtomicOp: wire.OpCSwap, Count: 4,
		Operand: []byte{9, 9, 9, 9}, Compare: []byte{1, 0, 3, 0},
	}))
	require.Equal(t, []byte{1, 2, 3, 4}, out.Result)
	got, err := regions[1].Get(ctx, 0, 4)
	require.NoError(t, err)
	require.Equal(t, []byte{9, 2, 9, 4}, got)
	counters, err := a.Counters(ctx)
	require.NoError(t, err)
	require.Zero(t, counters.Failed)
	require.NotZero(t, counters.Read)
	for _, r := range regions {
		require.NoError(t, r.Close(ctx))
	}
}

// TestFloodFails: failures in a flood are reported, and nothing waits for ever.
func TestFloodFails(t *testing.T) {
	ctx, a, b, toB, _ := pair(t)
	f, err := a.Flood(ctx, party.Flood{Number: 1, Peer: toB, Seed: 1, PeerSeed: 2, N: 50, PeerN: 50, Window: 3, Max: 200000})
	require.NoError(t, err)
	require.NoError(t, b.Close(ctx))
	out, err := f.Wait(ctx)
	require.NoError(t, err)
	require.NotZero(t, out.Errno)
	require.NotEmpty(t, out.Text)
}

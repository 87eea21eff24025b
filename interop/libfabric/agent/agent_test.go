package agent_test

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/interop/libfabric/agent"
	"github.com/efactor/efactor/interop/libfabric/install"
	"github.com/efactor/efactor/interop/libfabric/party"
)

var build = sync.OnceValues(func() ([]string, error) {
	in, err := install.Find(os.Getenv(install.Variable))
	if err != nil {
		return nil, err
	}
	return agent.Build(context.Background(), in, filepath.Join("..", "testdata", "agent"), dir)
})

var dir string

var le = binary.LittleEndian

func TestMain(m *testing.M) {
	var err error
	if dir, err = os.MkdirTemp("", "agent"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// need builds the program, or ends the test where that cannot be.
func need(t *testing.T) []string {
	t.Helper()
	testenv.NeedAll(t, "libfabric")
	program, err := build()
	if errors.Is(err, agent.ErrNoCompiler) || errors.Is(err, agent.ErrNoLibfabric) {
		testenv.Missing(t, "%v", err)
	}
	require.NoError(t, err)
	return program
}

// start starts an agent on a provider that needs no device.
func start(t *testing.T, ctx context.Context, name string) *agent.Agent {
	program := need(t)
	a, err := agent.Start(ctx, agent.Config{
		Name: name, Command: program, Provider: "tcp;ofi_rxm", Options: "node=127.0.0.1",
		Env: []string{"FI_LOG_LEVEL=warn"},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(a.Log())
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := a.Stop(ctx); !errors.Is(err, agent.ErrGone) {
			require.NoError(t, err)
		}
	})
	return a
}

func pair(t *testing.T) (ctx context.Context, a, b *agent.Agent, toB, toA party.Peer) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	a, b = start(t, ctx, "a"), start(t, ctx, "b")
	require.NoError(t, a.Open(ctx))
	require.NoError(t, b.Open(ctx))
	var err error
	toB, err = a.Insert(ctx, b.Address())
	require.NoError(t, err)
	toA, err = b.Insert(ctx, a.Address())
	require.NoError(t, err)
	return ctx, a, b, toB, toA
}

// TestMessages sends every kind of message between two agents.
func TestMessages(t *testing.T) {
	ctx, a, b, toB, toA := pair(t)
	for i, op := range []party.Op{
		{Size: 0},
		{Size: 1},
		{Size: 5000, Pieces: 3},
		{Size: 100000, Registered: true},
		{Size: 100, HasData: true, Data: 77},
		{Size: 30, Inject: true},
		{Size: 30, Inject: true, HasData: true, Data: 1 << 30},
		{Size: 300, Level: party.Delivered},
	} {
		for _, tagged := range []bool{false, true} {
			op.Kind, op.Peer, op.Tagged, op.Tag, op.Seed = party.Send, toB, tagged, uint64(i), i
			r, err := b.Start(ctx, party.Op{
				Kind: party.Recv, Directed: i%2 == 0, Peer: toA, Tagged: tagged, Tag: uint64(i), Size: op.Size + 10,
				Pieces: op.Pieces, Registered: op.Registered,
			})
			require.NoError(t, err)
			s, err := a.Start(ctx, op)
			require.NoError(t, err)
			for _, p := range []*party.Pending{s, r} {
				out, err := p.Wait(ctx)
				require.NoError(t, err, "%v", op)
				require.NoError(t, out.Err(), "%v", op)
			}
			out, _ := r.Wait(ctx)
			require.Equal(t, op.Size, out.N)
			require.NoError(t, out.Content.Whole(i, op.Size))
			require.Equal(t, op.HasData, out.HasData)
			if op.HasData {
				require.Equal(t, op.Data, out.Data)
			}
			require.Equal(t, toA, out.From)
		}
	}
}

// TestFailures: failures are reported, and nothing waits for ever.
func TestFailures(t *testing.T) {
	ctx, a, b, toB, _ := pair(t)
	r, err := b.Start(ctx, party.Op{Kind: party.Recv, Size: 100})
	require.NoError(t, err)
	_, err = a.Start(ctx, party.Op{Kind: party.Send, Peer: toB, Size: 150, Seed: 9})
	require.NoError(t, err)
	out, err := r.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, 265, out.Errno, "FI_ETRUNC")

	r, err = b.Start(ctx, party.Op{Kind: party.Recv, Tagged: true, Tag: 1, Size: 100})
	require.NoError(t, err)
	require.NoError(t, b.Cancel(ctx, r))
	out, err = r.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, 125, out.Errno, "FI_ECANCELED")

	var failed *agent.CallError
	require.ErrorAs(t, a.Open(ctx), &failed)
	r, err = b.Start(ctx, party.Op{Kind: party.Recv, Size: 1})
	require.NoError(t, err)
	b.Kill()
	_, err = r.Wait(ctx)
	require.ErrorIs(t, err, agent.ErrGone)
	_, err = b.Start(ctx, party.Op{Kind: party.Recv, Size: 1})
	require.ErrorIs(t, err, agent.ErrGone)
}

// TestOpenFails: an agent whose opening fails is ended, with all that it runs under, and
// says why.
func TestOpenFails(t *testing.T) {
	program := need(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	a, err := agent.Start(ctx, agent.Config{Command: []string{"sh", "-c", strings.Join(program, " ") + "; true"}, Provider: "no-such-provider"})
	require.NoError(t, err)
	var failed *agent.CallError
	require.ErrorAs(t, a.Open(ctx), &failed)
	_, err = a.Counters(ctx)
	require.ErrorIs(t, err, agent.ErrGone)
	require.Contains(t, a.Log(), "fi_getinfo")
	a.Kill() // again: nothing
}

// TestPlan: both makers of plans make the same.
func TestPlan(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	a := start(t, ctx, "a")
	for _, seed := range []uint64{0, 1, 77, 1 << 63} {
		for _, most := range []int{0, 1, 65536, 3000000} {
			sum, err := a.PlanSum(ctx, seed, 500, most, 4096)
			require.NoError(t, err)
			require.Equal(t, party.Sum(seed, 500, most, 4096), sum)
		}
	}
}

// TestMemory: regions, writes, reads, atomics and a flood.
func TestMemory(t *testing.T) {
	ctx, a, b, toB, toA := pair(t)
	at := [2]party.Region{}
	for i, x := range []party.Party{a, b} {
		var err error
		at[i], err = x.Region(ctx, party.FloodRegion(8, 20000), party.AccessAll)
		require.NoError(t, err)
		require.NoError(t, at[i].Clear(ctx))
		require.NoError(t, at[i].Set(ctx, 8*20000, make([]byte, 8)))
	}
	flood := party.Flood{Number: 1, Peer: toB, Seed: 5, PeerSeed: 6, N: 100, PeerN: 80, Window: 8, Max: 20000, Inject: 64, RMA: true}
	flood.At = at[1].Remote()
	f1, err := a.Flood(ctx, flood)
	require.NoError(t, err)
	flood = party.Flood{Number: 1, Peer: toA, Seed: 6, PeerSeed: 5, N: 80, PeerN: 100, Window: 8, Max: 20000, Inject: 64, RMA: true}
	flood.At = at[0].Remote()
	f2, err := b.Flood(ctx, flood)
	require.NoError(t, err)
	for _, f := range []*party.Pending{f1, f2} {
		out, err := f.Wait(ctx)
		require.NoError(t, err)
		require.NoError(t, out.Err())
	}
	sum, err := at[1].Get(ctx, 8*20000, 8)
	require.NoError(t, err)
	require.Equal(t, party.Additions(5, 100, 20000, 64), le.Uint64(sum))
	c, err := a.Counters(ctx)
	require.NoError(t, err)
	require.Zero(t, c.Failed)
	require.NotZero(t, c.Send)
}

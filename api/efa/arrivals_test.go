package efa_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// arrivals is a configuration that counts the given values.
func arrivals(v ...efa.Values) efa.EndpointConfig {
	return efa.EndpointConfig{Arrivals: &efa.ArrivalsConfig{Expected: v}}
}

// dataOf is the data of a value in the usual layout.
func dataOf(t testing.TB, value, generation uint32) uint64 {
	d, err := efa.DataLayout{}.Data(value, generation)
	require.NoError(t, err)
	return d
}

// TestArrivals: writes of all lengths in any order, by whatever subprotocol, are all there in
// full when the wait for their count returns, and they are reported in no other way.
func TestArrivals(t *testing.T) {
	const groups, each, room = 4, 12, 120_000
	everywhere(t, arrivals(efa.Values{0, groups - 1}, efa.Values{100, 103}), func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		m, src := alloc(t, b, groups*each*room, remote), alloc(t, a, room, 0)
		clear(m.Bytes())
		sizes := []int{0, 1, 100, 9000, maxRDMA, room}
		posted := make(chan error, 1)
		go func() {
			posted <- func() error {
				for i, k := range rand.New(rand.NewPCG(1, 2)).Perm(groups * each) {
					r := efa.WriteReq{
						To: a.peer, At: m.Remote().Slice(uint64(k*room), room), Buf: src.Bytes()[:sizes[k%len(sizes)]], Quiet: true,
						HasData: true, Data: uint64(k / each), Level: efa.Level(i % 3),
					}
					for {
						_, err := a.ep.PostWrite(&r)
						if err == nil {
							break
						}
						if !isAny(err, efa.ErrAgain) {
							return err
						}
					}
				}
				return nil
			}()
		}()
		arr := b.ep.Arrivals()
		for g := range uint32(groups) {
			require.NoError(t, arr.Wait(ctx, g, each, b.peer))
			require.Equal(t, uint64(each), arr.Count(g))
			for k := int(g) * each; k < int(g+1)*each; k++ {
				n := sizes[k%len(sizes)]
				require.Equal(t, src.Bytes()[:n], m.Bytes()[k*room:][:n], "write %d", k)
			}
		}
		require.NoError(t, <-posted)
		require.NoError(t, arr.WaitRange(ctx, efa.Values{0, groups - 1}, groups*each))
		require.NoError(t, arr.WaitRange(ctx, efa.Values{1, 2}, 2*each, b.peer))
		require.Zero(t, b.ep.RecvQueue().TryRead(make([]efa.Completion, 1)))

		// What was not declared is reported.
		for _, data := range []uint64{groups, 99, 104, 1 << 23, 1 << 32, 1 << 63} {
			require.NoError(t, a.ep.Memory(a.peer, m.Remote()).Write(ctx, pattern(9), efa.Data(data)))
			c := next(t, b)
			require.Equal(t, []any{efa.RemoteWrite, data, 9}, []any{c.Kind, c.Data, c.N})
		}
		require.Equal(t, efa.ArrivalStats{Unexpected: 6}, arr.Stats())
	})
}

// TestArrivalGenerations: a late write is counted apart, an early one for its generation.
func TestArrivalGenerations(t *testing.T) {
	f := newFabric(t, sim.Config{InOrder: true})
	da, db := domainOn(t, newDevice(t, f), efa.DomainConfig{}), domainOn(t, newDevice(t, f), efa.DomainConfig{})
	cfg := arrivals(efa.Values{0, 9})
	cfg.RemoteWriteCounter = db.NewCounter()
	a, b := newEndpoint(t, da, efa.EndpointConfig{}), newEndpoint(t, db, cfg)
	introduce(t, a, b)
	ctx, arr, m := testContext(t), b.ep.Arrivals(), alloc(t, b, 64, remote)
	write := func(value, generation uint32) {
		require.NoError(t, a.ep.Memory(a.peer, m.Remote()).Write(ctx, pattern(9), efa.Data(dataOf(t, value, generation)), efa.Complete(efa.Delivered)))
	}
	for g := range uint32(600) { // the 8 bits come round twice
		require.Equal(t, g, arr.Generation())
		write(3, g)
		write(3, g)
		write(4, g+1)
		write(3, g-1)
		write(3, g+2) // as if of 254 generations ago
		require.NoError(t, arr.Wait(ctx, 3, 2, b.peer))
		early := uint64(1)
		if g == 0 {
			early = 0
		}
		require.Equal(t, []uint64{2, early}, []uint64{arr.Count(3), arr.Count(4)})
		require.Equal(t, efa.ArrivalStats{Late: 2 * uint64(g+1), Early: uint64(g + 1)}, arr.Stats())
		require.Equal(t, g+1, arr.Next())
	}
	require.Zero(t, arr.Count(3))
	all, _ := cfg.RemoteWriteCounter.Value()
	require.Equal(t, uint64(5*600), all)
}

// TestArrivalsModel plays arrivals against the plainest way to count.
func TestArrivalsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.SampledFrom([]int{2, 4, 29, 30, 31, 32}).Draw(t, "bits")
		layout := efa.DataLayout{ValueBits: bits}
		declared := []efa.Values{{2, 3}, {0, 0}}
		if bits > 2 {
			declared = append(declared, efa.Values{7, 12})
		}
		a, err := efa.NewArrivals(&efa.ArrivalsConfig{Layout: layout, Expected: declared})
		if err != nil {
			t.Fatal(err)
		}
		expected := func(v uint32) bool {
			for _, r := range declared {
				if r.First <= v && v <= r.Last {
					return true
				}
			}
			return false
		}
		counts, g, want := map[[2]uint32]uint64{}, uint32(0), efa.ArrivalStats{}
		modulo := uint64(1) << (32 - bits)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.IntRange(0, 5).Draw(t, "next") == 0 {
				g++
				if a.Next() != g {
					t.Fatalf("generation is not %d", g)
				}
				continue
			}
			v := rapid.Uint32Range(0, min(13, layout.MaxValue())).Draw(t, "value")
			of := g + rapid.Uint32Range(0, 4).Draw(t, "ahead") - 2
			data, err := layout.Data(v, of)
			if err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 9).Draw(t, "high") == 0 {
				data |= 1 << 40
			}
			taken := a.Arrive(data)
			ahead := (uint64(of) + 1<<32 - uint64(g)) % modulo
			switch {
			case data>>32 != 0 || !expected(v):
				want.Unexpected++
				if taken {
					t.Fatal("counted what nobody expects")
				}
				continue
			case ahead == 0:
				counts[[2]uint32{g, v}]++
			case ahead == 1 && modulo > 2:
				counts[[2]uint32{g + 1, v}]++
				want.Early++
			default:
				want.Late++
			}
			if !taken {
				t.Fatal("not counted")
			}
		}
		for v := range uint32(14) {
			if got := a.Count(v); got != counts[[2]uint32{g, v}] {
				t.Fatalf("value %d: %d, not %d", v, got, counts[[2]uint32{g, v}])
			}
		}
		if a.Stats() != want {
			t.Fatalf("%+v, not %+v", a.Stats(), want)
		}
	})
}

// TestArrivalsConfig: what cannot be counted is refused, and so is what is not counted.
func TestArrivalsConfig(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{InOrder: true}), efa.DomainConfig{})
	for name, c := range map[string]efa.ArrivalsConfig{
		"nothing":       {},
		"backwards":     {Expected: []efa.Values{{2, 1}}},
		"twice":         {Expected: []efa.Values{{5, 9}, {0, 5}}},
		"beyond":        {Expected: []efa.Values{{0, 1 << 24}}},
		"too many":      {Expected: []efa.Values{{0, efa.MaxArrivalValues}}},
		"too many bits": {Layout: efa.DataLayout{ValueBits: 33}, Expected: []efa.Values{{0, 1}}},
		"fewer bits":    {Layout: efa.DataLayout{ValueBits: -1}, Expected: []efa.Values{{0, 1}}},
	} {
		_, err := dom.NewEndpoint(efa.EndpointConfig{Arrivals: &c})
		require.ErrorIs(t, err, efa.ErrInvalid, name)
	}
	for _, cfg := range []efa.EndpointConfig{
		{Datagram: true, Arrivals: arrivals(efa.Values{0, 1}).Arrivals},
		{Direct: true, RMAEvents: true},
		{Direct: true, RemoteReadCounter: dom.NewCounter()},
	} {
		_, err := dom.NewEndpoint(cfg)
		require.ErrorIs(t, err, efa.ErrNotSupported)
	}
	off, err := dom.NewEndpoint(arrivals(efa.Values{0, 0}))
	require.NoError(t, err)
	require.ErrorIs(t, off.Arrivals().Wait(testContext(t), 0, 1), efa.ErrBadState)
	require.NoError(t, off.Close())

	s := newEndpoint(t, dom, arrivals(efa.Values{0, 3}, efa.Values{4, 7}, efa.Values{10, 10}))
	ctx, arr := testContext(t), s.ep.Arrivals()
	for _, v := range []efa.Values{{8, 8}, {0, 8}, {7, 10}, {3, 2}, {10, 11}} {
		require.ErrorIs(t, arr.WaitRange(ctx, v, 1), efa.ErrInvalid, "%v", v)
	}
	require.NoError(t, arr.WaitRange(ctx, efa.Values{2, 5}, 0), "both are expected")
	require.ErrorIs(t, arr.Wait(ctx, 0, 1, efa.AnyAddr), efa.ErrInvalid)
	require.ErrorIs(t, arr.Wait(ctx, 0, 1, 77), efa.ErrInvalid)
	require.Zero(t, arr.Waiting())
	require.Nil(t, newEndpoint(t, dom, efa.EndpointConfig{}).ep.Arrivals())
	_, err = efa.DataLayout{ValueBits: 4}.Data(16, 0)
	require.ErrorIs(t, err, efa.ErrInvalid)
	_, err = efa.DataLayout{ValueBits: 40}.Data(1, 0)
	require.ErrorIs(t, err, efa.ErrInvalid)
	for bits, want := range map[int]uint64{0: 0x0700_0005, 4: 0x75, 32: 5, 8: 0x705} {
		d, err := efa.DataLayout{ValueBits: bits}.Data(5, 7)
		require.NoError(t, err)
		require.Equal(t, want, d, "%d bits", bits)
	}
}

// TestArrivalsEnd: whatever ends the wait, it ends.
func TestArrivalsEnd(t *testing.T) {
	const timeout = 2 * time.Second
	for name, c := range map[string]struct {
		named bool
		end   func(t *testing.T, a, b *side, cancel func())
		want  []error
	}{
		"the context":      {true, func(_ *testing.T, _, _ *side, cancel func()) { cancel() }, []error{context.Canceled, efa.ErrCanceled}},
		"the endpoint":     {false, func(t *testing.T, _, b *side, _ func()) { require.NoError(t, b.ep.Close()) }, []error{efa.ErrClosed}},
		"a removed peer":   {true, func(t *testing.T, _, b *side, _ func()) { require.NoError(t, b.av.Remove(testContext(t), b.peer)) }, []error{efa.ErrCanceled}},
		"a peer":           {true, func(t *testing.T, a, _ *side, _ func()) { require.NoError(t, a.ep.Close()) }, []error{efa.ErrPeerFailed}},
		"a new generation": {true, func(_ *testing.T, _, b *side, _ func()) { b.ep.Arrivals().Next() }, []error{efa.ErrBadState}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := arrivals(efa.Values{0, 0})
			cfg.Protocol = efa.ProtocolConfig{PeerTimeout: timeout, ProbeAfter: timeout / 8}
			a, b := lab{ep: cfg}.open(t)
			marker(t, a, b)
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			var peers []efa.Addr
			if c.named {
				peers = append(peers, b.peer)
			}
			arr, ended := b.ep.Arrivals(), make(chan error, 1)
			go func() { ended <- arr.Wait(ctx, 0, 1, peers...) }()
			for arr.Waiting() == 0 {
				require.NoError(t, ctx.Err())
			}
			_, err := b.ep.Snapshot(ctx) // the shard has begun to watch
			require.NoError(t, err)
			c.end(t, a, b, cancel)
			err = <-ended
			for _, want := range c.want {
				require.ErrorIs(t, err, want)
			}
			require.Zero(t, arr.Waiting())
		})
	}
}

// TestArrivalsMany: waiters of several values and ranges, beginning at any time, miss nothing.
func TestArrivalsMany(t *testing.T) {
	const values, each, rounds = 8, 10, 20
	a, b := lab{ep: arrivals(efa.Values{0, values - 1})}.open(t)
	ctx, arr, m := testContext(t), b.ep.Arrivals(), alloc(t, b, 64, remote)
	for g := range uint32(rounds) {
		var wg sync.WaitGroup
		errs := make(chan error, 3*values+each*values)
		for v := range uint32(values) {
			wg.Go(func() { errs <- arr.Wait(ctx, v, each, b.peer) })
			wg.Go(func() { errs <- arr.WaitRange(ctx, efa.Values{0, v}, int(v+1)*each) })
			wg.Go(func() {
				for range each {
					data, err := efa.DataLayout{}.Data(v, g)
					if err == nil {
						err = a.ep.Memory(a.peer, m.Remote()).Write(ctx, nil, efa.Data(data))
					}
					errs <- err
				}
			})
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			require.NoError(t, err)
		}
		arr.Next()
	}
	require.Equal(t, efa.ArrivalStats{}, arr.Stats())
}

// TestArrivalsAllocations: a write that is counted allocates nothing, and nor does a wait for
// what is there.
func TestArrivalsAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for name, dev := range devices {
		t.Run(name, func(t *testing.T) {
			a, b := lab{dev: dev, mode: efa.ProgressManual, ep: arrivals(efa.Values{0, 9})}.open(t)
			m, src, ctx, arr := alloc(t, b, 10_000, remote), alloc(t, a, 10_000, 0), context.Background(), b.ep.Arrivals()
			n := 0
			for _, size := range []int{8, 10_000} {
				one := func() {
					n++
					if err := a.ep.Memory(a.peer, m.Remote()).Write(ctx, src.Bytes()[:size], efa.Data(4), efa.Complete(efa.Delivered)); err != nil {
						t.Error(err)
					}
					for arr.Count(4) < uint64(n) {
						b.ep.RecvQueue().TryRead(nil)
						b.ep.RecvQueue().TryRead(make([]efa.Completion, 1))
					}
					if err := arr.Wait(ctx, 4, n, b.peer); err != nil {
						t.Error(err)
					}
				}
				for range 100 {
					one()
				}
				require.Less(t, fewestAllocs(100, one), 0.1, fmt.Sprint(size))
			}
		})
	}
}

package coll_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/testenv"
)

// elementKind is a type of element: it begins trials with that.
type elementKind struct {
	name  string
	begin func(ctx context.Context, c *coll.Comm, tr trial, block bool) (*pending, error)
	ops   int
	bytes int
}

var kinds = []elementKind{
	kindOf("int64", integers[int64](), 8),
	kindOf("uint8", integers[uint8](), 1),
	kindOf("int32", integers[int32](), 4),
	kindOf("uint", integers[uint](), 8),
	kindOf("float64", orderedNumbers[float64](), 8),
	kindOf("float32", orderedNumbers[float32](), 4),
	kindOf("complex128", numbers[complex128](), 16),
	kindOf("complex64", numbers[complex64](), 8),
	kindOf("affine", affines, 8),
}

func kindOf[T comparable](name string, f flavor[T], bytes int) elementKind {
	return elementKind{name, func(ctx context.Context, c *coll.Comm, tr trial, block bool) (*pending, error) {
		return begin(ctx, c, f, tr, block)
	}, len(f.ops), bytes}
}

// TestAll: every algorithm of every collective on every number of ranks, with
// every type and operator, against the definition. In the short form each type has one of
// its operators at a time.
func TestAll(t *testing.T) {
	for _, p := range sizes {
		for _, reads := range []bool{false, true} {
			t.Run(fmt.Sprintf("ranks=%d/reads=%v", p, reads), func(t *testing.T) {
				t.Parallel()
				s := setup{seed: uint64(p), device: sim.DeviceConfig{RDMARead: reads}, lower: p%2 == 1}
				err := newParty(t, p, s).run(func(ctx context.Context, c *coll.Comm) error {
					return everything(ctx, c, reads)
				})
				require.NoError(t, err)
			})
		}
	}
}

func everything(ctx context.Context, c *coll.Comm, reads bool) error {
	i := 0
	for _, name := range coll.Collectives() {
		for _, alg := range coll.Algorithms(name) {
			for k, kind := range kinds {
				for op := range kind.ops {
					i++
					if (c.Size() > 5 || testenv.Short()) && op != i/kind.ops%kind.ops {
						continue // one of them: in full they have all had their turn on fewer ranks
					}
					n := []int{0, 1, 3, 17, 100, 1000}[(i+op)%6]
					if k < 2 && op == 0 && c.Size() <= 5 { // long ones, in several frames
						n = 200 << 10 / kind.bytes
					}
					tr := trial{
						kind: name, seed: uint64(i), n: n, root: i % c.Size(), op: op,
						inPlace: i%3 == 0, alloc: reads && i%2 == 0,
						opts: []coll.Option{coll.Use(alg), coll.Segment(64 << 10)},
					}
					if name[len(name)-1] == 'v' || name == "reducescatter" && i%4 < 2 {
						for r := range c.Size() {
							tr.counts = append(tr.counts, (n*(r+i)%7+r)/3)
						}
					}
					p, err := kind.begin(ctx, c, tr, true)
					if err == nil {
						err = p.wait(ctx)
					}
					if err != nil {
						return fmt.Errorf("%s, %s: %w", alg, kind.name, err)
					}
				}
			}
		}
	}
	return nil
}

// TestArguments: mistakes are reported at once, without a message, and do no harm.
func TestArguments(t *testing.T) {
	ctx := context.Background()
	three, four, ten := make([]int, 3), make([]int, 4), make([]int, 10)
	var none coll.Op[int]
	mistakes := map[string]func(c *coll.Comm) error{
		"root below":     func(c *coll.Comm) error { return coll.Bcast(ctx, c, three, -1) },
		"root above":     func(c *coll.Comm) error { return coll.Reduce(ctx, c, three, three, coll.Sum, 2) },
		"gather out":     func(c *coll.Comm) error { return coll.Gather(ctx, c, three, ten, c.Rank()) },
		"scatter in":     func(c *coll.Comm) error { return coll.Scatter(ctx, c, three, ten, c.Rank()) },
		"allgather out":  func(c *coll.Comm) error { return coll.Allgather(ctx, c, three, ten) },
		"alltoall odd":   func(c *coll.Comm) error { return coll.Alltoall(ctx, c, three, make([]int, 3)) },
		"alltoall out":   func(c *coll.Comm) error { return coll.Alltoall(ctx, c, four, ten) },
		"reduce out":     func(c *coll.Comm) error { return coll.Allreduce(ctx, c, three, four, coll.Sum) },
		"no operator":    func(c *coll.Comm) error { return coll.Allreduce(ctx, c, three, three, none) },
		"scan out":       func(c *coll.Comm) error { return coll.Scan(ctx, c, three, four, coll.Sum) },
		"reducescatter":  func(c *coll.Comm) error { return coll.ReduceScatter(ctx, c, three, four, nil, coll.Sum) },
		"too few counts": func(c *coll.Comm) error { return coll.Allgatherv(ctx, c, three, ten, []int{3}) },
		"counts below":   func(c *coll.Comm) error { return coll.Allgatherv(ctx, c, three, ten, []int{-1, 11}) },
		"counts overflow": func(c *coll.Comm) error {
			return coll.Allgatherv(ctx, c, three, ten, []int{1<<63 - 1, 1<<63 - 1})
		},
		"counts too many": func(c *coll.Comm) error { return coll.Gatherv(ctx, c, three, ten, []int{3, 8}, c.Rank()) },
		"counts too few":  func(c *coll.Comm) error { return coll.Scatterv(ctx, c, ten, []int{3, 3}, three, c.Rank()) },
		"not our count":   func(c *coll.Comm) error { return coll.Allgatherv(ctx, c, four, ten, []int{5, 5}) },
		"to itself": func(c *coll.Comm) error {
			return coll.Alltoallv(ctx, c, make([]int, 4), []int{2, 2}, ten, []int{5, 5})
		},
		"in place with others": func(c *coll.Comm) error {
			sends, receives := []int{1, 2}, []int{1, 2}
			receives[1-c.Rank()], receives[c.Rank()] = sends[c.Rank()], sends[1-c.Rank()]
			return coll.Alltoallv(ctx, c, three, sends, three, receives)
		},
		"overlap":       func(c *coll.Comm) error { return coll.Allreduce(ctx, c, ten[:4], ten[2:6], coll.Sum) },
		"not our place": func(c *coll.Comm) error { return coll.Allgather(ctx, c, ten[2:7], ten) },
		"pointers":      func(c *coll.Comm) error { return coll.Bcast(ctx, c, []string{"a"}, 0) },
		"a pointer within": func(c *coll.Comm) error {
			return coll.Bcast(ctx, c, make([]struct {
				a int
				b [2]struct{ p *int }
			}, 1), 0)
		},
		"no size":   func(c *coll.Comm) error { return coll.Bcast(ctx, c, make([]struct{}, 3), 0) },
		"not begun": func(c *coll.Comm) error { _, err := coll.Ibcast(ctx, c, three, 7); return err },
	}
	pa := newParty(t, 2, setup{seed: 1})
	err := pa.run(func(ctx context.Context, c *coll.Comm) error {
		for name, f := range mistakes {
			require.ErrorIs(t, f(c), efa.ErrInvalid, name)
		}
		sent, _ := pa.ranks[c.Rank()].sent.Value()
		require.Zero(t, sent)
		return coll.Barrier(ctx, c)
	})
	require.NoError(t, err)
}

func TestNewRefuses(t *testing.T) {
	ep := newParty(t, 1, setup{seed: 1}).ranks[0].ep
	for _, cfg := range []coll.Config{
		{},
		{Endpoint: ep},
		{Endpoint: ep, Peers: []efa.Addr{0}, Rank: 1},
		{Endpoint: ep, Peers: []efa.Addr{0}, Rank: -1},
	} {
		_, err := coll.New(cfg)
		require.ErrorIs(t, err, efa.ErrInvalid)
	}
}

func TestMemory(t *testing.T) {
	c := alone(t)
	a, err := coll.Alloc[float64](c, 1000)
	require.NoError(t, err)
	require.Len(t, a, 1000)
	b, err := coll.Alloc[affine](c, 1)
	require.NoError(t, err)
	empty, err := coll.Alloc[int](c, 0)
	require.NoError(t, err)
	require.NoError(t, coll.Free(c, empty))
	require.ErrorIs(t, coll.Free(c, a[1:]), efa.ErrInvalid)
	require.ErrorIs(t, coll.Free(c, make([]int, 3)), efa.ErrInvalid)
	require.NoError(t, coll.Free(c, a))
	require.ErrorIs(t, coll.Free(c, b[:0:0]), nil)
	for _, n := range []int{-1, 1 << 62} {
		_, err = coll.Alloc[int](c, n)
		require.ErrorIs(t, err, efa.ErrInvalid)
	}
	_, err = coll.Alloc[string](c, 1)
	require.ErrorIs(t, err, efa.ErrInvalid)
} // b goes with the group

// TestInPlaceByTurns: calls follow each other in which another rank works in place each
// time.
func TestInPlaceByTurns(t *testing.T) {
	for _, ranks := range []int{2, 4, 8} {
		for _, n := range []int{1, 3, 100} { // 100 are more than lie in the call
			t.Run(fmt.Sprintf("%d ranks/%d", ranks, n), func(t *testing.T) {
				pa := newParty(t, ranks, setup{seed: 3})
				require.NoError(t, pa.run(func(ctx context.Context, c *coll.Comm) error {
					in, out := make([]int64, n), make([]int64, n)
					for round := range 2 * ranks {
						for i := range in {
							in[i] = int64(c.Rank()*round + i)
						}
						to := out
						if round%ranks == c.Rank() {
							to = in
						}
						if err := coll.Allreduce(ctx, c, in, to, coll.Sum); err != nil {
							return err
						}
						for i, v := range to {
							assert.Equal(t, int64(ranks*(ranks-1)/2*round+ranks*i), v, "round %d", round)
						}
					}
					return nil
				}))
			})
		}
	}
}

// TestMismatchAfterMatches: calls that do not fit together fail, also after some that did.
func TestMismatchAfterMatches(t *testing.T) {
	for name, n := range map[string]int{"fewer": 1, "more": 3} {
		t.Run(name, func(t *testing.T) {
			pa := newParty(t, 4, setup{seed: 5})
			require.NoError(t, pa.runAll(func(ctx context.Context, c *coll.Comm) error {
				in, out := make([]int64, 3), make([]int64, 3)
				for range 3 {
					if err := coll.Allreduce(ctx, c, in[:2], out[:2], coll.Sum); err != nil {
						return err
					}
				}
				m := 2
				if c.Rank() == 1 {
					m = n
				}
				err := coll.Allreduce(ctx, c, in[:m], out[:m], coll.Sum)
				if !errors.Is(err, coll.ErrMismatch) {
					return fmt.Errorf("rank %d: %w", c.Rank(), err)
				}
				return nil
			}, true))
		})
	}
}

// TestCanceledAfterMatches: a context that has ended fails the group, also after calls that
// succeeded.
func TestCanceledAfterMatches(t *testing.T) {
	pa := newParty(t, 2, setup{seed: 7})
	require.NoError(t, pa.runAll(func(ctx context.Context, c *coll.Comm) error {
		in, out := []int64{1}, []int64{0}
		for range 3 {
			if err := coll.Allreduce(ctx, c, in, out, coll.Sum); err != nil {
				return err
			}
		}
		if c.Rank() == 1 {
			var cancel func()
			ctx, cancel = context.WithCancel(ctx)
			cancel()
		}
		err := coll.Allreduce(ctx, c, in, out, coll.Sum)
		var at *coll.RankError
		if !errors.As(err, &at) || at.Rank != 1 || !errors.Is(err, coll.ErrAborted) {
			return fmt.Errorf("rank %d: %w", c.Rank(), err)
		}
		return nil
	}, true))
}

// TestCrossing: two ranks that send to each other at the same time do not wait for each
// other, whatever the size, though the buffers are such that a receiver reads them.
func TestCrossing(t *testing.T) {
	for _, lower := range []bool{false, true} {
		var p efa.ProtocolConfig
		if lower {
			p.MinRead, p.MaxMedium = 1<<10, -1
		}
		crossing(t, p)
	}
}

func crossing(t *testing.T, p efa.ProtocolConfig) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := "shm:" + filepath.Join(t.TempDir(), "fabric")
	var eps [2]*efa.Endpoint
	for i := range eps {
		var err error
		eps[i], err = efa.OpenEndpoint(ctx, efa.Setup{
			Fabric: efa.Config{DeviceName: dir}, Endpoint: efa.EndpointConfig{Protocol: p},
		})
		require.NoError(t, err)
	}
	rank := func(i int) error {
		ep := eps[i]
		peers, err := ep.AddressVector().InsertAll(eps[0].Address(), eps[1].Address())
		if err != nil {
			return err
		}
		c, err := coll.New(coll.Config{Endpoint: ep, Rank: i, Peers: peers})
		if err != nil {
			return err
		}
		mem, err := ep.Domain().Alloc(1<<20, 0)
		if err != nil {
			return err
		}
		defer mem.Close()
		for n := 1 << 12; n <= 1<<19; n *= 2 {
			for _, n := range []int{n - 1, n, n + 1} {
				sum := make([]byte, n)
				if err := coll.Allreduce(ctx, c, mem.Bytes()[:n], sum, coll.Sum); err != nil {
					return err
				}
			}
		}
		return c.Close(ctx)
	}
	other := make(chan error, 1)
	go func() { other <- rank(1) }()
	require.NoError(t, rank(0))
	require.NoError(t, <-other)
	for _, ep := range eps {
		require.NoError(t, ep.Close())
	}
}

// TestMessages: the algorithms send as many messages as they are known for.
func TestMessages(t *testing.T) {
	for _, x := range []struct {
		kind, alg   string
		five, eight uint64 // with as many ranks, of all ranks together
	}{
		{"barrier", "dissemination", 5 * 3, 8 * 3},
		{"bcast", "binomial", 4, 7},
		{"bcast", "scatter-allgather", 4 + 5*4, 7 + 8*7},
		{"bcast", "pipeline", 4, 7},
		{"gather", "binomial", 4, 7},
		{"gather", "linear", 4, 7},
		{"scatter", "binomial", 4, 7},
		{"scatter", "linear", 4, 7},
		{"allgather", "ring", 5 * 4, 8 * 7},
		{"allgather", "bruck", 5 * 3, 8 * 3},
		{"allgather", "recursive-doubling", 5 * 3, 8 * 3}, // of 5: what fits instead
		{"alltoall", "pairwise", 5 * 4, 8 * 7},
		{"alltoall", "bruck", 5 * 3, 8 * 3},
		{"reduce", "binomial", 4, 7},
		{"reduce", "rabenseifner", 1 + 4*2 + 4, 8*3 + 7},
		{"allreduce", "recursive-doubling", 2 + 4*2, 8 * 3},
		{"allreduce", "rabenseifner", 2 + 2*4*2, 2 * 8 * 3},
		{"allreduce", "ring", 2 * 5 * 4, 2 * 8 * 7},
		{"reducescatter", "pairwise", 5 * 4, 8 * 7},
		{"reducescatter", "ring", 5 * 4, 8 * 7},
		{"reducescatter", "recursive-halving", 5 * 4, 8 * 3},
		{"reducescatter", "reduce-scatterv", 2 * 4, 2 * 7},
		{"scan", "recursive-doubling", 8 + 2, 8 * 3},
		{"scan", "linear", 4, 7},
	} {
		for p, want := range map[int]uint64{5: x.five, 8: x.eight} {
			t.Run(fmt.Sprintf("%s/%s/%d", x.kind, x.alg, p), func(t *testing.T) {
				pa := newParty(t, p, setup{seed: 1})
				tr := trial{kind: x.kind, seed: 1, n: 800, opts: []coll.Option{coll.Use(x.alg)}}
				var sent uint64
				err := pa.run(func(ctx context.Context, c *coll.Comm) error {
					before, _ := pa.ranks[c.Rank()].sent.Value()
					p, err := kinds[1].begin(ctx, c, tr, true)
					if err != nil {
						return err
					}
					if err := pa.world.Sleep(1e9); err != nil { // until all have been counted
						return err
					}
					after, failed := pa.ranks[c.Rank()].sent.Value()
					require.Zero(t, failed)
					sent += after - before
					return p.wait(ctx)
				})
				require.NoError(t, err)
				require.Equal(t, want, sent)
			})
		}
	}
}

// TestSleepingCalls: a rank that sleeps in a collective, with a context that may be canceled, can do so in the
// next one, too.
func TestSleepingCalls(t *testing.T) {
	dir := "shm:" + filepath.Join(t.TempDir(), "fabric")
	var eps [2]*efa.Endpoint
	for i := range eps {
		var err error
		eps[i], err = efa.OpenEndpoint(t.Context(), efa.Setup{
			Fabric: efa.Config{DeviceName: dir}, Domain: efa.DomainConfig{Spin: 1},
		})
		require.NoError(t, err)
	}
	rank := func(ctx context.Context, i int) error {
		peers, err := eps[i].AddressVector().InsertAll(eps[0].Address(), eps[1].Address())
		if err != nil {
			return err
		}
		c, err := coll.New(coll.Config{Endpoint: eps[i], Rank: i, Peers: peers})
		if err != nil {
			return err
		}
		for range 1000 {
			if err := coll.Barrier(ctx, c); err != nil {
				return err
			}
			one, cancel := context.WithCancel(ctx)
			err := coll.Barrier(one, c)
			cancel()
			if err != nil {
				return err
			}
		}
		return c.Close(ctx)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Hang)
	defer cancel()
	other := make(chan error, 1)
	go func() { other <- rank(ctx, 1) }()
	require.NoError(t, rank(ctx, 0))
	require.NoError(t, <-other)
	for _, ep := range eps {
		require.NoError(t, ep.Close())
	}
}

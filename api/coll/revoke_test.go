package coll_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

// noticed is within what time all survivors know of a death: with PeerTimeout at its
// default of 10 s, and once more for sends to the dead that are given up.
const noticed = 25 * time.Second

// TestDeath: a rank dies at any moment of any collective. All others fail with an
// error that names it, in bounded time, on every group that it was in.
func TestDeath(t *testing.T) {
	for seed := range uint64(less(playDeaths)) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			d := rand.New(rand.NewPCG(seed, 0xdead))
			p := 2 + d.IntN(7)
			victim, at := d.IntN(p), time.Duration(d.IntN(3000))*time.Microsecond
			pa := newParty(t, p, setup{
				seed:   seed,
				fabric: sim.Config{Delay: 5 * time.Microsecond, Jitter: 10 * time.Microsecond, ReportGone: d.IntN(2) == 0},
				device: sim.DeviceConfig{RDMARead: d.IntN(2) == 0},
				lower:  seed%2 == 1,
			})
			var died time.Duration
			gone, die := context.WithCancel(context.Background())
			defer die()
			pa.world.Go("killer", func(context.Context) error {
				if err := pa.world.Sleep(at); err != nil {
					return err
				}
				died = pa.world.Elapsed()
				pa.ranks[victim].dev.Kill()
				die()
				return pa.ranks[victim].ep.Close() // a read that is under way ends in no other way
			})
			for i, r := range pa.ranks {
				pa.world.Go(fmt.Sprint("rank", i), func(ctx context.Context) error {
					c, err := coll.New(r.cfg)
					if err != nil {
						return err
					}
					if i == victim {
						_ = endless(gone, c, seed)
						_ = c.Close(gone)
						return nil
					}
					err = endless(ctx, c, seed)
					var re *coll.RankError
					if !errors.As(err, &re) || re.Rank != victim || !errors.Is(err, efa.ErrPeerFailed) {
						return fmt.Errorf("rank %d: %w, where %d died", i, err, victim)
					}
					if late := pa.world.Elapsed() - died; late > noticed {
						return fmt.Errorf("rank %d knows after %v", i, late)
					}
					if err := coll.Barrier(ctx, c); !errors.As(err, &re) || re.Rank != victim {
						return fmt.Errorf("rank %d: another collective: %w", i, err)
					}
					if err := c.Close(ctx); !errors.As(err, &re) {
						return fmt.Errorf("rank %d: Close: %w", i, err)
					}
					return nil
				})
			}
			require.NoError(t, pa.world.Run())
		})
	}
}

// endless does random collectives until one fails.
func endless(ctx context.Context, c *coll.Comm, seed uint64) error {
	d := rand.New(rand.NewPCG(seed, 0xe0d))
	for {
		k := d.IntN(len(kinds))
		p, err := kinds[k].begin(ctx, c, *randomTrial(d, c.Size(), k), d.IntN(2) == 0)
		if err == nil {
			err = p.wait(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// TestContextEnds: a rank whose context ends in the middle takes the others with it.
func TestContextEnds(t *testing.T) {
	for _, long := range []int{1, 100_000} {
		for _, reads := range []bool{false, true} {
			pa := newParty(t, 4, setup{seed: uint64(long), device: sim.DeviceConfig{RDMARead: reads}})
			err := pa.runAll(func(ctx context.Context, c *coll.Comm) error {
				if c.Rank() == 3 { // is late
					if err := pa.world.Sleep(time.Second); err != nil {
						return err
					}
				}
				if c.Rank() == 1 {
					var cancel func()
					ctx, cancel = pa.world.WithTimeout(ctx, time.Millisecond)
					defer cancel()
				}
				buf := make([]int64, long)
				err := coll.Allreduce(ctx, c, buf, buf, coll.Sum)
				var re *coll.RankError
				require.ErrorAs(t, err, &re)
				require.Equal(t, 1, re.Rank)
				require.ErrorIs(t, err, coll.ErrAborted)
				if c.Rank() == 1 {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
				require.ErrorContains(t, err, "deadline exceeded", "the others are told why")
				return nil
			}, true)
			require.NoError(t, err)
			require.Less(t, pa.world.Elapsed(), 2*time.Second)
		}
	}
}

// TestOutOfReach: a rank that another cannot reach lives, and waits for it: the third one
// informs it that the group has failed.
func TestOutOfReach(t *testing.T) {
	pa := newParty(t, 3, setup{seed: 1})
	place := func(rank int) sim.Endpoint {
		raw, _ := pa.ranks[rank].ep.Address().Raw("sim")
		return sim.Endpoint{GID: raw.GID(), QPN: raw.QPN()}
	}
	_, err := pa.world.Fabric().AddRule(sim.Rule{
		Fault: sim.FaultStatus, Status: device.StatusUnreachable, From: place(0), To: place(1),
	})
	require.NoError(t, err)
	for i, r := range pa.ranks {
		pa.world.Go(fmt.Sprint("rank", i), func(ctx context.Context) error {
			c, err := coll.New(r.cfg)
			require.NoError(t, err)
			for range 2 { // ranks that had all the data they needed from the first
				if err = coll.Bcast(ctx, c, make([]int, 10), 0, coll.Use("binomial")); err == nil {
					err = coll.Barrier(ctx, c)
				}
			}
			var re *coll.RankError
			require.ErrorAs(t, err, &re)
			require.Equal(t, 1, re.Rank)
			return nil
		})
	}
	require.NoError(t, pa.world.Run())
	require.Less(t, pa.world.Elapsed(), noticed)
}

// TestCutOff: a rank that can reach no other one any more blames itself, as all others do.
func TestCutOff(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			const victim = 2
			pa := newParty(t, 4, setup{seed: seed, device: sim.DeviceConfig{RDMARead: seed%2 == 0}, fabric: sim.Config{Delay: 5 * time.Microsecond}})
			var at [4]sim.Endpoint
			for i, r := range pa.ranks {
				raw, _ := r.ep.Address().Raw("sim")
				at[i] = sim.Endpoint{GID: raw.GID(), QPN: raw.QPN()}
			}
			pa.world.Go("cutter", func(context.Context) error {
				if err := pa.world.Sleep(500 * time.Microsecond); err != nil {
					return err
				}
				for i, other := range at {
					if i == victim { // it goes on talking to itself
						continue
					}
					for _, r := range []sim.Rule{{From: at[victim], To: other}, {From: other, To: at[victim]}} {
						r.Fault, r.Status = sim.FaultStatus, device.StatusUnreachable
						if _, err := pa.world.Fabric().AddRule(r); err != nil {
							return err
						}
					}
				}
				return nil
			})
			for i, r := range pa.ranks {
				pa.world.Go(fmt.Sprint("rank", i), func(ctx context.Context) error {
					c, err := coll.New(r.cfg)
					if err != nil {
						return err
					}
					err = endless(ctx, c, seed)
					var re *coll.RankError
					if !errors.As(err, &re) || re.Rank != victim || !errors.Is(err, efa.ErrPeerFailed) {
						return fmt.Errorf("rank %d: %w, where %d was cut off", i, err, victim)
					}
					if err := c.Close(ctx); !errors.As(err, &re) || re.Rank != victim {
						return fmt.Errorf("rank %d: Close: %w", i, err)
					}
					return nil
				})
			}
			require.NoError(t, pa.world.Run())
			require.Less(t, pa.world.Elapsed(), noticed)
		})
	}
}

// TestSlowRank: a rank that finds another one dead, while a third is slow, does not wait for that one: it
// fails as soon as any other was told, and, if none was, Close ends with its context.
func TestSlowRank(t *testing.T) {
	const finder, dead = 0, 3
	for name, slow := range map[string][]int{"one": {1}, "all": {1, 2}} {
		t.Run(name, func(t *testing.T) {
			fabric, all := realPartyOn(t, 4)
			var met sync.WaitGroup
			for _, r := range all {
				met.Go(func() { _ = coll.Barrier(t.Context(), r.Comm) })
			}
			met.Wait()
			for _, to := range slow {
				_, err := fabric.AddRule(sim.Rule{
					Fault: sim.FaultDelay, Delay: 1000 * time.Hour, From: all[finder].place, To: all[to].place,
				})
				require.NoError(t, err)
			}
			all[dead].dev.Kill()
			c, failed := all[finder].Comm, make(chan error, 1)
			go func() { failed <- coll.Bcast(t.Context(), c, make([]int, 10), dead, coll.Use("binomial")) }()
			require.Eventually(t, func() bool { return coll.Fails(c) }, testenv.Hang, time.Millisecond)
			began := clock.System.Now()
			over, cancel := context.WithCancel(t.Context())
			cancel()
			if name == "all" {
				require.Error(t, c.Close(over))
			}
			var re *coll.RankError
			require.ErrorAs(t, <-failed, &re)
			require.Equal(t, dead, re.Rank)
			require.Less(t, clock.System.Now().Sub(began), 5*time.Second) // half of PeerTimeout, and a quarter of what reach waits
			for _, r := range all {
				_ = r.Close(over)
			}
		})
	}
}

// TestNoPlaceToTell: a group that fails, and has no place for the send that says it, ends with Close.
func TestNoPlaceToTell(t *testing.T) {
	fabric, all := realPartyWith(t, 2, efa.EndpointConfig{Protocol: efa.ProtocolConfig{PeerTimeout: time.Hour}})
	_, err := fabric.AddRule(sim.Rule{Fault: sim.FaultDelay, Delay: 1000 * time.Hour, From: all[0].place, To: all[1].place})
	require.NoError(t, err)
	for err == nil { // until there is none
		_, err = all[0].ep.Start(&efa.SendReq{To: all[0].peers[1], Buf: []byte("x"), Level: efa.Transmitted})
	}
	require.ErrorIs(t, err, efa.ErrAgain)
	told := make(chan struct{})
	go func() {
		defer close(told)
		all[0].Abort(errors.New("enough"))
	}()
	require.Eventually(t, func() bool { return coll.Fails(all[0].Comm) }, testenv.Hang, time.Millisecond)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	closed := make(chan error, 1)
	go func() { closed <- all[0].Close(over) }()
	ended := func() bool {
		select {
		case <-told:
			return len(closed) == 1
		default:
			return false
		}
	}
	require.Eventually(t, ended, testenv.Hang, time.Millisecond)
	require.Error(t, <-closed)
	_ = all[1].Close(over)
}

// TestAbort: a rank aborts between collectives.
func TestAbort(t *testing.T) {
	pa := newParty(t, 3, setup{seed: 1})
	err := pa.runAll(func(ctx context.Context, c *coll.Comm) error {
		other, err := c.Split(ctx, 0, c.Rank())
		require.NoError(t, err)
		require.NoError(t, coll.Barrier(ctx, other), "all have ended Split, which is a collective of c")
		if c.Rank() == 2 {
			c.Abort(errors.New("disk full"))
		}
		err = coll.Barrier(ctx, c)
		var re *coll.RankError
		require.ErrorAs(t, err, &re)
		require.Equal(t, 2, re.Rank)
		require.ErrorContains(t, err, "disk full")
		require.NoError(t, coll.Barrier(ctx, other), "other groups go on")
		return other.Close(ctx)
	}, true)
	require.NoError(t, err)
}

// combining are the collectives that call the caller's operator.
var combining = map[string]func(ctx context.Context, c *coll.Comm, b []int64, op coll.Op[int64]) error{
	"allreduce": func(ctx context.Context, c *coll.Comm, b []int64, op coll.Op[int64]) error {
		return coll.Allreduce(ctx, c, b, b, op)
	},
	"reduce": func(ctx context.Context, c *coll.Comm, b []int64, op coll.Op[int64]) error {
		return coll.Reduce(ctx, c, b, b, op, 2)
	},
	"reducescatter": func(ctx context.Context, c *coll.Comm, b []int64, op coll.Op[int64]) error {
		return coll.ReduceScatter(ctx, c, b, b[:len(b)/c.Size()], nil, op)
	},
	"scan": func(ctx context.Context, c *coll.Comm, b []int64, op coll.Op[int64]) error {
		return coll.Scan(ctx, c, b, b, op)
	},
	"iallreduce": func(ctx context.Context, c *coll.Comm, b []int64, op coll.Op[int64]) error {
		r, err := coll.Iallreduce(ctx, c, b, b, op)
		if err != nil {
			return err
		}
		return r.Wait(ctx)
	},
}

// leaving is what a rank gets from a collective with an operator that does not return on
// rank 2, and, if it has all that it needs, from the next one.
func leaving(ctx context.Context, c *coll.Comm, n int, do func(context.Context, *coll.Comm, []int64, coll.Op[int64]) error, leave func()) (err error) {
	func() {
		defer func() { _ = recover() }() // as net/http does for its handlers
		err = do(ctx, c, make([]int64, n), func(in, inout []int64) {
			if c.Rank() == 2 {
				leave()
			}
			coll.Sum(in, inout)
		})
	}()
	if err == nil {
		err = coll.Barrier(ctx, c)
	}
	return err
}

// TestOperatorPanics: the ranks learn at once that the operator of one of them panicked, and
// the group can be closed, with all its memory and places back.
func TestOperatorPanics(t *testing.T) {
	for name, do := range combining {
		for _, n := range []int{4, 60_000} {
			for _, reads := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/%v", name, n, reads), func(t *testing.T) {
					pa := newParty(t, 4, setup{seed: 1, device: sim.DeviceConfig{RDMARead: reads}})
					require.NoError(t, pa.runAll(func(ctx context.Context, c *coll.Comm) error {
						err := leaving(ctx, c, n, do, func() { panic("no such element") })
						var re *coll.RankError
						require.ErrorAs(t, err, &re)
						require.Equal(t, 2, re.Rank)
						require.ErrorIs(t, err, coll.ErrAborted)
						require.ErrorContains(t, err, "no such element")
						return nil
					}, true))
					require.Less(t, pa.world.Elapsed(), time.Second)
				})
			}
		}
	}
}

// TestOperatorPanicsOn: the panic of a blocking collective is the caller's.
func TestOperatorPanicsOn(t *testing.T) {
	pa := newParty(t, 2, setup{seed: 1})
	require.NoError(t, pa.runAll(func(ctx context.Context, c *coll.Comm) error {
		b, cause := make([]int, 1), errors.New("mine")
		require.PanicsWithValue(t, cause, func() {
			_ = coll.Allreduce(ctx, c, b, b, func(_, _ []int) { panic(cause) })
		})
		return nil
	}, true))
}

// TestOperatorEndsGoroutine: as TestOperatorPanics, where it calls runtime.Goexit, as
// FailNow of a test does. The simulation's programs may not.
func TestOperatorEndsGoroutine(t *testing.T) {
	for name, do := range combining {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), testenv.Hang)
			defer cancel()
			errs := make([]error, 4)
			var over sync.WaitGroup
			for r, c := range realParty(t, len(errs)) {
				over.Go(func() {
					defer func() { errs[r] = errors.Join(errs[r], c.Close(ctx)) }()
					errs[r] = leaving(ctx, c, 1000, do, runtime.Goexit)
				})
			}
			over.Wait()
			for r, err := range errs {
				var re *coll.RankError
				require.ErrorAs(t, err, &re, "rank %d", r)
				require.Equal(t, 2, re.Rank, "rank %d", r)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
			}
		})
	}
}

// realParty is p ranks of this process on a simulated fabric in real time.
func realParty(t *testing.T, p int) (all []*coll.Comm) {
	_, ranks := realPartyOn(t, p)
	for _, r := range ranks {
		all = append(all, r.Comm)
	}
	return all
}

// placed is a rank, and where it is on its fabric.
type placed struct {
	*coll.Comm
	place sim.Endpoint
	dev   *sim.Device
	ep    *efa.Endpoint
	peers []efa.Addr
}

func realPartyOn(t *testing.T, p int) (*sim.Fabric, []placed) {
	return realPartyWith(t, p, efa.EndpointConfig{})
}

func realPartyWith(t *testing.T, p int, cfg efa.EndpointConfig) (*sim.Fabric, []placed) {
	fabric, err := sim.New(sim.Config{ReportGone: true})
	require.NoError(t, err)
	var eps []*efa.Endpoint
	all := make([]placed, p)
	for r := range p {
		dev, err := fabric.OpenDevice(sim.DeviceConfig{})
		require.NoError(t, err)
		ep, err := efa.OpenEndpoint(t.Context(), efa.Setup{Fabric: efa.Config{Device: dev}, Endpoint: cfg})
		require.NoError(t, err)
		t.Cleanup(func() { _ = ep.Close() })
		eps = append(eps, ep)
		all[r].dev = dev
	}
	for r, ep := range eps {
		raw, _ := ep.Address().Raw("sim")
		all[r].place = sim.Endpoint{GID: raw.GID(), QPN: raw.QPN()}
		cfg := coll.Config{Endpoint: ep, Rank: r}
		for _, other := range eps {
			a, err := ep.AddressVector().Insert(other.Address())
			require.NoError(t, err)
			cfg.Peers = append(cfg.Peers, a)
		}
		all[r].ep, all[r].peers = ep, cfg.Peers
		var err error
		all[r].Comm, err = coll.New(cfg)
		require.NoError(t, err)
	}
	return fabric, all
}

// TestMismatch: calls that do not fit together end with an error.
func TestMismatch(t *testing.T) {
	ctx := context.Background()
	for name, f := range map[string]func(c *coll.Comm) error{
		"longer": func(c *coll.Comm) error {
			return coll.Allreduce(ctx, c, make([]int, 3+c.Rank()), make([]int, 3+c.Rank()), coll.Sum)
		},
		"much longer": func(c *coll.Comm) error {
			return coll.Bcast(ctx, c, make([]byte, 10+200_000*c.Rank()), 0)
		},
		"much shorter": func(c *coll.Comm) error {
			return coll.Bcast(ctx, c, make([]byte, 10+200_000*(1-c.Rank())), 0)
		},
		"part of another length": func(c *coll.Comm) error {
			var counts []int
			if c.Rank() == 0 {
				counts = []int{2, 5}
			}
			return coll.Gatherv(ctx, c, make([]int, 2), make([]int, 7*(1-c.Rank())), counts, 0)
		},
		"long part of which little comes": func(c *coll.Comm) error {
			if c.Rank() == 0 {
				return coll.Gatherv(ctx, c, make([]int, 2), make([]int, 131_074), []int{2, 131_072}, 0)
			}
			return coll.Gatherv(ctx, c, make([]int, 1000), nil, nil, 0)
		},
		"same sum of other counts": func(c *coll.Comm) error {
			counts := []int{100_000 + 100_000*c.Rank(), 200_000 - 100_000*c.Rank()}
			return coll.Allgatherv(ctx, c, make([]int, 100_000), make([]int, 300_000), counts)
		},
		"another collective": func(c *coll.Comm) error {
			if c.Rank() == 0 {
				return coll.Barrier(ctx, c)
			}
			return coll.Allgather(ctx, c, make([]int, 0), make([]int, 0))
		},
		"another algorithm": func(c *coll.Comm) error {
			b := make([]int, 2)
			return coll.Allreduce(ctx, c, b, b, coll.Sum, coll.Use([]string{"ring", "rabenseifner"}[c.Rank()]))
		},
	} {
		t.Run(name, func(t *testing.T) {
			pa := newParty(t, 2, setup{seed: 1})
			failed := 0
			err := pa.runAll(func(_ context.Context, c *coll.Comm) error {
				err := f(c)
				if err == nil { // it had all that it needed; the next one knows
					err = coll.Barrier(ctx, c)
				}
				var re *coll.RankError
				require.ErrorAs(t, err, &re)
				require.ErrorIs(t, err, coll.ErrMismatch)
				failed++
				return nil
			}, true)
			require.NoError(t, err)
			require.Equal(t, 2, failed)
		})
	}
}

func init() {
	jobs["until one dies"] = func(ctx context.Context, c *coll.Comm, _ string) error {
		buf := make([]float64, 100_000)
		for i := 0; ; i++ {
			if i == 3 {
				fmt.Println("begun")
			}
			err := coll.Allreduce(ctx, c, buf, buf, coll.Max)
			if err == nil {
				continue
			}
			var re *coll.RankError
			if !errors.As(err, &re) || !errors.Is(err, efa.ErrPeerFailed) {
				return err
			}
			fmt.Println("dead:", re.Rank)
			if err := c.Close(ctx); !errors.As(err, &re) {
				return fmt.Errorf("Close: %w", err)
			}
			return nil
		}
	}
}

// TestKill: a process is killed, and all others name it.
func TestKill(t *testing.T) {
	for _, n := range []int{2, 4} {
		ps := startProcesses(t, n, "until one dies", "")
		for _, p := range ps {
			require.True(t, p.out.Scan())
			require.Equal(t, "begun", p.out.Text())
		}
		victim := n / 2
		began := clock.System.Now()
		require.NoError(t, ps[victim].cmd.Process.Kill())
		for i, p := range ps {
			out, err := p.wait()
			if i != victim {
				require.NoError(t, err, out)
				require.Equal(t, fmt.Sprintln("dead:", victim), out)
			}
		}
		require.Less(t, clock.System.Now().Sub(began), testenv.Hang, "PeerTimeout had to tell")
	}
}

package shard_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
)

// ping asks an actor to set a signal.
type ping struct {
	shard.Message
	sig shard.Signal
}

func setter() actor.Producer {
	return func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			switch m := ctx.Message().(type) {
			case *ping:
				m.sig.Set()
			case *note:
				m.do(ctx)
			}
		})
	}
}

func eachMode(t *testing.T, f func(t *testing.T, s *shard.Shard, ref shard.Ref)) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			s := newShard(t, shard.Config{Mode: mode})
			require.Equal(t, mode, s.Mode())
			f(t, s, spawn(t, s, "setter", setter()))
		})
	}
}

func TestPostWakesParked(t *testing.T) {
	eachMode(t, func(t *testing.T, s *shard.Shard, ref shard.Ref) {
		ctx := soon(t)
		for range 20 {
			parked(t, s)
			var p ping
			s.Post(ref, &p)
			require.NoError(t, s.Wait(ctx, &p.sig))
		}
		require.NotZero(t, s.Stats().Wakes)
	})
}

// TestProgressWithoutWaiter: work is done while no goroutine waits.
func TestProgressWithoutWaiter(t *testing.T) {
	eachMode(t, func(t *testing.T, s *shard.Shard, ref shard.Ref) {
		ctx := soon(t)
		for range 200 {
			done := make(chan struct{})
			s.Post(ref, &note{do: func(actor.Context) { close(done) }})
			select {
			case <-done:
			case <-ctx.Done():
				t.Fatal("no progress")
			}
			// A wait, after which the manual shard is left behind awake.
			var p ping
			s.Post(ref, &p)
			require.NoError(t, s.Wait(ctx, &p.sig))
		}
	})
}

func TestWaitEndsWithContext(t *testing.T) {
	why := errors.New("why")
	eachMode(t, func(t *testing.T, s *shard.Shard, ref shard.Ref) {
		var sig shard.Signal
		ended, cancel := context.WithCancelCause(context.Background())
		cancel(why)
		require.ErrorIs(t, s.Wait(ended, &sig), why)

		ctx, cancel := context.WithCancelCause(context.Background())
		got := make(chan error)
		go func() { got <- s.Wait(ctx, &sig) }()
		parked(t, s)
		cancel(why)
		require.ErrorIs(t, <-got, why)

		// The signal can be used again, and a set signal wins over a context that ended.
		var p ping
		s.Post(ref, &p)
		require.NoError(t, s.Wait(soon(t), &p.sig))
		sig.Set()
		require.NoError(t, s.Wait(ctx, &sig))
		sig.Reset()
		require.False(t, sig.IsSet())
	})
}

// Any goroutine may set a signal whose waiter is parked.
func TestSetFromElsewhere(t *testing.T) {
	eachMode(t, func(t *testing.T, s *shard.Shard, _ shard.Ref) {
		for range 20 {
			var sig shard.Signal
			got := make(chan error)
			go func() { got <- s.Wait(soon(t), &sig) }()
			parked(t, s)
			sig.Set()
			sig.Set()
			require.NoError(t, <-got)
		}
	})
}

func TestCloseWhileWaiting(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			s, err := shard.New(shard.Config{Mode: mode})
			require.NoError(t, err)
			ref := spawn(t, s, "setter", setter())
			var mu sync.Mutex
			canceled := 0
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					var sig shard.Signal
					if err := s.Wait(soon(t), &sig); !errors.Is(err, shard.ErrClosed) {
						t.Error(err)
					}
				})
			}
			parked(t, s)
			for range 3 {
				wg.Go(func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			// A message that comes later is canceled at once.
			s.Post(ref, &lost{canceled: func() {
				mu.Lock()
				defer mu.Unlock()
				canceled++
			}})
			require.Equal(t, 1, canceled)
			_, err = s.Spawn("late", setter())
			require.ErrorIs(t, err, shard.ErrClosed)
			require.ErrorIs(t, s.Wait(context.Background(), new(shard.Signal)), shard.ErrClosed)
		})
	}
}

// Every message has one outcome, however Close and producers interleave.
func TestCloseRacesPost(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			for range 20 {
				s, err := shard.New(shard.Config{Mode: mode})
				require.NoError(t, err)
				var got []any
				ref := spawn(t, s, "x", producer(&got))
				const senders, each = 2, 200
				var mu sync.Mutex
				canceled := 0
				var wg sync.WaitGroup
				for range senders {
					wg.Go(func() {
						for range each {
							s.Post(ref, &lost{canceled: func() {
								mu.Lock()
								defer mu.Unlock()
								canceled++
							}})
						}
					})
				}
				require.NoError(t, s.Close())
				wg.Wait()
				received := 0
				for _, g := range got {
					if g == 0 {
						received++
					}
				}
				require.Equal(t, senders*each, received+canceled)
			}
		})
	}
}

// Roots stop in the order of spawning, after the messages they have.
func TestCloseOrder(t *testing.T) {
	s, err := shard.New(shard.Config{External: true})
	require.NoError(t, err)
	require.True(t, s.Adopt())
	var got []any
	a := spawn(t, s, "a", producer(&got))
	b := spawn(t, s, "b", producer(&got))
	settle(s)
	got = nil
	s.Tell(b, &note{n: 2})
	s.Tell(a, &note{n: 1})
	require.NoError(t, s.Close())
	require.Equal(t, []any{2, 1, "stopping", "stopped", "stopping", "stopped"}, got)
	require.NoError(t, s.Close())
	require.Zero(t, s.Turn())
}

func TestWaitInsideTurn(t *testing.T) {
	eachMode(t, func(t *testing.T, s *shard.Shard, ref shard.Ref) {
		var p ping
		var err error
		s.Post(ref, &note{do: func(actor.Context) {
			require.True(t, s.OnShard())
			err = s.Wait(context.Background(), new(shard.Signal))
			p.sig.Set()
		}})
		require.NoError(t, s.Wait(soon(t), &p.sig))
		require.ErrorIs(t, err, shard.ErrInTurn)
		require.False(t, s.OnShard())
	})
}

// TestIdle: a parked shard costs less than 1% of a CPU.
func TestIdle(t *testing.T) {
	testenv.Long(t, "it takes seconds of a machine that does nothing else")
	eachMode(t, func(t *testing.T, s *shard.Shard, ref shard.Ref) {
		var p ping
		s.Post(ref, &p)
		require.NoError(t, s.Wait(soon(t), &p.sig))
		parked(t, s)
		var used time.Duration
		for range 5 { // in one second of these Go's runtime may do something else
			before := cpuTime(t)
			second, cancel := context.WithTimeout(context.Background(), time.Second)
			<-second.Done()
			cancel()
			used = cpuTime(t) - before
			t.Logf("%v of CPU in 1 s", used)
			if used < 10*time.Millisecond {
				break
			}
		}
		require.Less(t, used, 10*time.Millisecond)
	})
}

// TestDrive: a goroutine that polls gets its work done by its own turns, also
// when the helper slept for the shard before.
func TestDrive(t *testing.T) {
	s := newShard(t, shard.Config{Mode: shard.Manual})
	ref := spawn(t, s, "setter", setter())
	ctx := soon(t)
	for range 20 {
		parked(t, s)
		for range 100 {
			var p ping
			s.Post(ref, &p)
			for !p.sig.IsSet() {
				require.NoError(t, ctx.Err())
				s.Drive()
			}
		}
	}
	for !s.Adopt() { // the helper may have it for a moment
	}
	require.Zero(t, s.Drive(), "it is ours")
	s.Release()
	other := newShard(t, shard.Alone(shard.Config{Mode: shard.Pinned}))
	require.Zero(t, other.Drive())
}

// served is a poller that counts what it was given.
type served struct {
	given atomic.Int64
	taken int
}

func (p *served) Poll(*shard.Shard) int {
	n := int(p.given.Swap(0))
	p.taken += n
	return n
}
func (p *served) Flush(*shard.Shard) {}
func (p *served) Arm() bool          { return p.given.Load() == 0 }
func (p *served) FDs() []int         { return nil }

// TestClaim: what a poller was given is done when Run returns, unless another goroutine
// owns the shard.
func TestClaim(t *testing.T) {
	s := newShard(t, shard.Config{Mode: shard.Manual})
	ref := spawn(t, s, "served", setter())
	var p served
	polled := s.AddPoller(ref, &p)
	for !s.Adopt() { // the helper may have it for a moment
	}
	p.given.Store(1)
	require.False(t, s.Claim(), "it is ours")
	s.Release()
	for !s.Claim() { // the helper may have it for a moment
	}
	s.Run(polled)
	require.Equal(t, 1, p.taken)
	s.Release()

	pinned := newShard(t, shard.Alone(shard.Config{Mode: shard.Pinned}))
	require.False(t, pinned.Claim())
}

// TestRunAndWait: what a poller was given is done first, its turn is ended once, and the
// shard is free when the signal is set.
func TestRunAndWait(t *testing.T) {
	s := newShard(t, shard.Config{Mode: shard.Manual})
	var sig shard.Signal
	p := once{sig: &sig}
	ref := spawn(t, s, "poller", setter())
	polled := s.AddPoller(ref, &p)
	for !s.Claim() { // the helper may have it for a moment
	}
	p.polls, p.flushes = 0, nil
	sig.Reset()
	require.NoError(t, s.RunAndWait(t.Context(), &sig, polled))
	s.RemovePoller(&p) // the helper may have polled it meanwhile
	require.Equal(t, []int{1}, p.flushes, "it is polled once, and flushed in the same turn")
}

// TestRunPanic: a panic in the poller that was given work is the failure of its actor, and the
// turn goes on to its end.
func TestRunPanic(t *testing.T) {
	s := newShard(t, shard.Config{Mode: shard.Manual})
	var p panics
	bad := s.AddPoller(spawn(t, s, "bad", setter()), &p)
	var sig shard.Signal
	good := once{sig: &sig}
	s.AddPoller(spawn(t, s, "good", setter()), &good)
	for !s.Claim() { // the helper may have it for a moment
	}
	p, good.polls, good.flushes = true, 0, nil
	s.Run(bad)
	require.EqualValues(t, 1, s.Stats().Failures)
	require.Equal(t, []int{0}, good.flushes, "it is not polled, and flushed")
	require.NoError(t, s.RunAndWait(t.Context(), &sig, bad), "the shard goes on")
}

// panics is a poller that fails once when it is true.
type panics bool

func (p *panics) Poll(*shard.Shard) int {
	if *p {
		*p = false
		panic("poll")
	}
	return 0
}
func (p *panics) Flush(*shard.Shard) {}
func (p *panics) Arm() bool          { return true }
func (p *panics) FDs() []int         { return nil }

// once sets a signal when it is polled first, and lists how often it had been at each flush.
type once struct {
	sig     *shard.Signal
	polls   int
	flushes []int
}

func (p *once) Poll(*shard.Shard) int {
	if p.polls++; p.polls > 1 {
		return 0
	}
	p.sig.Set()
	return 1
}

func (p *once) Flush(*shard.Shard) { p.flushes = append(p.flushes, p.polls) }
func (p *once) Arm() bool          { return true }
func (p *once) FDs() []int         { return nil }

// TestHandOver: eight goroutines wait for signals that are set in each other's
// turns: a ping goes to a random actor, which passes it on a few times, so that
// it is often another's turn. With a Grace of an hour the helper repairs nothing:
// the test hangs if a hand-over is lost.
func TestHandOver(t *testing.T) {
	rounds := 12500
	if raceEnabled || testenv.Short() {
		rounds = 2500
	}
	s := newShard(t, shard.Config{Mode: shard.Manual, Grace: time.Hour})
	handOver(t, s, 8, rounds)
}

// TestHandOverElsewhere does the same in the modes with a loop of their own, and with
// a helper that takes the shard often.
func TestHandOverElsewhere(t *testing.T) {
	for _, cfg := range []shard.Config{
		{Mode: shard.Manual, Grace: time.Microsecond, Spin: time.Microsecond},
		{Mode: shard.Manual, Grace: time.Hour, Spin: time.Microsecond},
		shard.Alone(shard.Config{Mode: shard.Pinned}),
		{Mode: shard.Pinned, Spin: time.Microsecond},
	} {
		t.Run(cfg.Mode.String(), func(t *testing.T) {
			handOver(t, newShard(t, cfg), 8, 500)
		})
	}
}

type relay struct {
	shard.Message
	hops int
	sig  shard.Signal
}

func handOver(t *testing.T, s *shard.Shard, waiters, rounds int) {
	refs := make([]shard.Ref, 4)
	for i := range refs {
		refs[i] = spawn(t, s, "", func() actor.Actor {
			return actor.ReceiveFunc(func(ctx actor.Context) {
				m, ok := ctx.Message().(*relay)
				if !ok {
					return
				}
				if m.hops--; m.hops > 0 {
					s.Tell(refs[s.Rand().IntN(len(refs))], m)
					return
				}
				m.sig.SetByOwner()
			})
		})
	}
	ctx := soon(t)
	var wg sync.WaitGroup
	for w := range waiters {
		wg.Go(func() {
			m := &relay{}
			for i := range rounds {
				m.sig.Reset()
				m.hops = 1 + (i*7+w)%40
				s.Post(refs[(i+w)%len(refs)], m)
				if err := s.Wait(ctx, &m.sig); err != nil {
					t.Errorf("waiter %d, round %d: %v", w, i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestWokenRunFirst: a driver that has woken another goroutine, and has no processor to spare, lets it run and use the shard
// before it spins on.
func TestWokenRunFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s := newShard(t, shard.Config{Mode: shard.Manual, Spin: time.Hour})
	ref := spawn(t, s, "setter", setter())
	ctx := soon(t)
	var driver shard.Signal
	over := make(chan error)
	go func() { over <- s.Wait(ctx, &driver) }()
	const rounds = 100
	claimed := 0
	for range rounds { // one in which the kernel or Go's runtime stops the driver at a bad moment says nothing
		for s.Claim() { // the driver is not there yet, or sleeps since the machine is busy
			s.Release()
			s.Wake()
			runtime.Gosched()
		}
		var p ping
		s.Post(ref, &p)
		require.NoError(t, s.Wait(ctx, &p.sig))
		if s.Claim() {
			claimed++
			s.Release()
		}
	}
	driver.Set()
	require.NoError(t, <-over)
	require.Greater(t, claimed, rounds/2)
}

// TestAdoptByHand: an application that adopts a manual shard itself, and leaves
// it with work undone.
func TestAdoptByHand(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s, err := shard.New(shard.Config{Mode: shard.Manual})
	require.NoError(t, err)
	ref := spawn(t, s, "", setter())
	for range 100 {
		for !s.Adopt() {
		}
		require.False(t, s.Adopt())
		var p ping
		s.Tell(ref, &p)
		require.NoError(t, s.Wait(soon(t), &p.sig))
		done := make(chan struct{})
		s.Tell(ref, &note{do: func(actor.Context) { close(done) }})
		s.Release()
		<-done
	}
	require.NoError(t, s.Close())
}

// TestGrace: the helper takes a shard whose driver has just left within a few times
// Grace, in an idle process too. Machines are busy at times, so a quarter of the times
// is enough, in one try of many.
func TestGrace(t *testing.T) {
	testenv.Long(t, "it judges a time")
	s := newShard(t, shard.Config{Mode: shard.Manual})
	ref := spawn(t, s, "setter", setter())
	quarter := func() time.Duration {
		var took []time.Duration
		for range 100 {
			parked(t, s)
			s.Drive() // so that the helper stands by
			began, done := clock.System.Now(), make(chan struct{})
			s.Post(ref, &note{do: func(actor.Context) { close(done) }})
			<-done
			took = append(took, clock.System.Now().Sub(began))
		}
		slices.Sort(took)
		return took[len(took)/4]
	}
	least := quarter()
	for try := 1; try < 20 && least >= time.Millisecond; try++ {
		least = min(least, quarter())
	}
	require.Less(t, least, time.Millisecond)
}

// TestWaitersComeAndGo: goroutines wait for signals that a shard sets, or another goroutine, or until their context
// ends, on two shards in turn with the same signal, while others drive and post. In the end the shards are
// closed while goroutines wait.
func TestWaitersComeAndGo(t *testing.T) {
	rounds := 3000
	if raceEnabled || testenv.Short() {
		rounds = 300
	}
	cfg := shard.Config{Mode: shard.Manual, Spin: time.Microsecond}
	var shards [2]*shard.Shard
	var refs [2]shard.Ref
	for i := range shards {
		shards[i] = newShard(t, cfg)
		refs[i] = spawn(t, shards[i], "setter", setter())
	}
	ctx := soon(t)
	var waiters, others sync.WaitGroup
	for w := range 6 {
		waiters.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 0))
			var p ping
			for i := range rounds {
				p.sig.Reset()
				k := (i + w) % len(shards)
				mine, end := context.WithCancel(ctx)
				what := rnd.IntN(4)
				switch what {
				case 0:
					shards[k].Post(refs[k], &p)
				case 1:
					go p.sig.Set()
				case 2:
					go end()
				case 3:
					shards[k].Drive()
					shards[k].Post(refs[k], &p)
				}
				err := shards[k].Wait(mine, &p.sig)
				end()
				if (what == 2) != errors.Is(err, context.Canceled) || err == nil && !p.sig.IsSet() {
					t.Errorf("waiter %d, round %d, case %d: %v", w, i, what, err)
					return
				}
			}
		})
	}
	var over atomic.Bool
	for k, s := range shards {
		others.Go(func() {
			for !over.Load() {
				done := make(chan struct{})
				s.Post(refs[k], &note{do: func(actor.Context) { close(done) }})
				select {
				case <-done:
				case <-ctx.Done():
					t.Error("a post is not run")
					return
				}
				if s.Claim() {
					s.Release()
				}
			}
		})
	}
	waiters.Wait()
	over.Store(true)
	others.Wait()
	for _, s := range shards {
		for range 4 {
			others.Go(func() {
				if err := s.Wait(ctx, new(shard.Signal)); !errors.Is(err, shard.ErrClosed) {
					t.Error(err)
				}
			})
		}
	}
	for _, s := range shards {
		parked(t, s)
		require.NoError(t, s.Close())
	}
	others.Wait()
}

// TestHurried: a shard that is called again and again while its helper sleeps arms its pollers for the helper a few times. Then
// it wakes the helper, who looks at intervals, also if the calls only post.
func TestHurried(t *testing.T) {
	for name, call := range map[string]func(*shard.Shard, *shard.Polled) bool{
		"drive": func(s *shard.Shard, _ *shard.Polled) bool {
			s.Drive()
			return true
		},
		"post": func(s *shard.Shard, p *shard.Polled) bool {
			if !s.Claim() { // the helper has it
				runtime.Gosched()
				return false
			}
			s.Run(p)
			s.Release()
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			var now clock.Manual // it stands still: all calls come in a hurry
			s := newShard(t, shard.Config{Mode: shard.Manual, Clock: &now})
			var p armed
			polled := s.AddPoller(spawn(t, s, "poller", setter()), &p)
			parked(t, s)
			ctx, before := soon(t), p.arms.Load()
			for quiet := 0; quiet < 100_000; { // for longer than a helper that rests again stays awake
				if call(s, polled) {
					quiet++
				}
				if n := p.arms.Load(); n != before {
					require.NoError(t, ctx.Err(), "it goes on arming them")
					before, quiet = n, 0
				}
			}
		})
	}
}

// armed is a poller without news that counts how often it was armed.
type armed struct{ arms atomic.Int64 }

func (p *armed) Poll(*shard.Shard) int { return 0 }
func (p *armed) Flush(*shard.Shard)    {}
func (p *armed) FDs() []int            { return nil }

func (p *armed) Arm() bool {
	p.arms.Add(1)
	return true
}

package shard_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/runtime/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var modes = []shard.Mode{shard.Pinned, shard.Manual}

// note is a message with a number, and something to do on the shard.
type note struct {
	shard.Message
	n  int
	do func(ctx actor.Context)
}

// lost is a note that reports that it was canceled.
type lost struct {
	note
	canceled func()
}

func (l *lost) Canceled() { l.canceled() }

// recorder is an actor that lists what it got and does what its messages ask for.
type recorder struct {
	got   *[]any
	onMsg func(ctx actor.Context)
}

func (r *recorder) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *note:
		*r.got = append(*r.got, m.n)
		if m.do != nil {
			m.do(ctx)
		}
	case *lost:
		*r.got = append(*r.got, m.n)
	case *actor.Started:
		*r.got = append(*r.got, "started")
	case *actor.Restarting:
		*r.got = append(*r.got, "restarting")
	case *actor.Stopping:
		*r.got = append(*r.got, "stopping")
	case *actor.Stopped:
		*r.got = append(*r.got, "stopped")
	default:
		*r.got = append(*r.got, m)
	}
	if r.onMsg != nil {
		r.onMsg(ctx)
	}
}

func producer(got *[]any) actor.Producer {
	return func() actor.Actor { return &recorder{got: got} }
}

// newShard returns a shard that the test closes.
func newShard(tb testing.TB, cfg shard.Config) *shard.Shard {
	tb.Helper()
	s, err := shard.New(cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	return s
}

// owned returns an external shard that the test owns.
func owned(tb testing.TB, cfg shard.Config) *shard.Shard {
	tb.Helper()
	cfg.External = true
	s := newShard(tb, cfg)
	require.True(tb, s.Adopt())
	return s
}

func spawn(tb testing.TB, s *shard.Shard, name string, p actor.Producer, opts ...actor.PropsOption) shard.Ref {
	tb.Helper()
	ref, err := s.Spawn(name, p, opts...)
	require.NoError(tb, err)
	return ref
}

// settle turns the shard until there is nothing to do.
func settle(s *shard.Shard) {
	for s.Turn() > 0 {
	}
}

// fewestAllocs returns how many allocations a call makes that does not have to sleep:
// the fewest of some tries, since on a busy machine many sleep.
func fewestAllocs(runs int, call func()) float64 {
	least := testing.AllocsPerRun(runs, call)
	for range 19 {
		if least == 0 {
			break
		}
		least = min(least, testing.AllocsPerRun(runs, call))
	}
	return least
}

// soon returns a context for what should happen at once.
func soon(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	tb.Cleanup(cancel)
	return ctx
}

// parked waits until the shard has gone to sleep and not been woken.
func parked(tb testing.TB, s *shard.Shard) {
	tb.Helper()
	ctx := soon(tb)
	for before := s.Stats().Parks; ; {
		require.NoError(tb, ctx.Err(), "shard didn't park")
		// Two looks a while apart, since the shard may wake for a moment.
		pause, cancel := context.WithTimeout(ctx, 2*time.Millisecond)
		<-pause.Done()
		cancel()
		now := s.Stats().Parks
		if now > 0 && now == before {
			return
		}
		before = now
		runtime.Gosched()
	}
}

package efa_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// taken is the outcome of a call of Next.
type taken struct {
	d   efa.Delivery
	err error
}

// taker calls NextTag in a goroutine, and returns when the inbox is in the given state.
func taker(ctx context.Context, t *testing.T, s *side, m efa.Match, until efa.NextState) <-chan taken {
	t.Helper()
	out := make(chan taken, 1)
	go func() {
		d, err := s.ep.NextTag(ctx, m)
		out <- taken{d, err}
	}()
	for efa.StateOfNext(s.ep) != until {
		require.NoError(t, ctx.Err(), "%+v", efa.StateOfNext(s.ep))
		runtime.Gosched()
	}
	return out
}

// TestNextLeftToWaiter: what a call had taken whose context ends goes to one that waits for a message.
func TestNextLeftToWaiter(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			a, b := lab{mode: mode, ep: efa.EndpointConfig{NextMemory: 200_000}}.open(t)
			ctx, gone := testContext(t), make(chan struct{})
			one, cancel := context.WithCancel(ctx)
			sends := make(chan error, 1)
			go func() {
				defer close(gone)
				for tag := range uint64(2) {
					if err := a.ep.SendTag(ctx, a.peer, tag, pattern(150_000)); err != nil {
						sends <- err
					}
				}
			}()
			first, err := b.ep.NextTag(ctx, efa.Match{})
			require.NoError(t, err)
			left := taker(one, t, b, efa.Match{Tag: 1}, efa.NextState{ForMemory: 1, Lent: 150_000})
			other := taker(ctx, t, b, efa.Match{Tag: 7}, efa.NextState{ForMemory: 2, Lent: 150_000})
			heir := taker(ctx, t, b, efa.AnyTag, efa.NextState{ForMemory: 3, Lent: 150_000})
			cancel()
			require.ErrorIs(t, (<-left).err, context.Canceled)
			first.Release()
			got := <-heir
			require.NoError(t, got.err)
			require.Equal(t, []any{uint64(1), pattern(150_000)}, []any{got.d.Tag, got.d.Body})
			got.d.Release()
			<-gone
			require.Empty(t, sends)
			require.NoError(t, a.ep.SendTag(ctx, a.peer, 7, nil))
			require.NoError(t, (<-other).err, "a message that is not for it does it no harm")
		})
	}
}

// TestNextLeftWithMemory: a call that waits takes a message that was left while it was on its way
// into memory, whatever it waits for.
func TestNextLeftWithMemory(t *testing.T) {
	for name, x := range map[string]struct {
		most, messages int
		heir           efa.NextState
	}{
		"for memory":                  {150_000, 2, efa.NextState{ForMemory: 1, Receives: 1, Lent: 150_000}},
		"for memory with its message": {200_000, 2, efa.NextState{ForMemory: 1, Receives: 1, Lent: 150_000}},
		"for a message":               {400_000, 1, efa.NextState{Receives: 2, Lent: 1 << 18}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFabric(t, sim.Config{InOrder: true})
			dev := &frail{Device: newDevice(t, f)}
			a := newEndpoint(t, domainOn(t, dev, efa.DomainConfig{}), efa.EndpointConfig{})
			b := newEndpoint(t, domainOn(t, newDevice(t, f), efa.DomainConfig{}), efa.EndpointConfig{NextMemory: x.most})
			introduce(t, a, b)
			ctx := testContext(t)
			one, cancel := context.WithCancel(ctx)
			dev.deaf.Store(true) // nothing but first packets comes
			var ops []*efa.Op
			for tag := range uint64(x.messages) {
				ops = append(ops, start(t, a, &efa.SendReq{To: a.peer, Buf: pattern(150_000), Tagged: true, Tag: tag}))
			}
			left := taker(one, t, b, efa.Match{}, efa.NextState{Receives: 1, Lent: x.heir.Lent})
			heir := taker(ctx, t, b, efa.AnyTag, x.heir)
			cancel()
			require.ErrorIs(t, (<-left).err, context.Canceled)
			dev.deaf.Store(false)
			dev.notify.Load().(func())()
			for tag, op := range ops {
				done(t, op)
				got := <-heir
				require.NoError(t, got.err)
				require.Equal(t, []any{uint64(tag), pattern(150_000)}, []any{got.d.Tag, got.d.Body})
				got.d.Release()
				if tag+1 < len(ops) {
					more := make(chan taken, 1)
					go func() {
						d, err := b.ep.NextTag(ctx, efa.AnyTag)
						more <- taken{d, err}
					}()
					heir = more
				}
			}
		})
	}
}

// TestNextLeftBeforeFailure: what was left of an endpoint that failed is no error of the one after.
func TestNextLeftBeforeFailure(t *testing.T) {
	f := newFabric(t, sim.Config{InOrder: true})
	dev := &frail{Device: newDevice(t, f)}
	a := newEndpoint(t, domainOn(t, newDevice(t, f), efa.DomainConfig{}), efa.EndpointConfig{})
	b := newEndpoint(t, domainOn(t, dev, efa.DomainConfig{}), efa.EndpointConfig{NextMemory: 200_000})
	introduce(t, a, b)
	ctx := testContext(t)
	one, cancel := context.WithCancel(ctx)
	for range 2 {
		start(t, a, &efa.SendReq{To: a.peer, Buf: pattern(150_000), Tagged: true})
	}
	first, err := b.ep.NextTag(ctx, efa.AnyTag)
	require.NoError(t, err)
	left := taker(one, t, b, efa.AnyTag, efa.NextState{ForMemory: 1, Lent: 150_000})
	cancel()
	require.ErrorIs(t, (<-left).err, context.Canceled)
	dev.fail(t, b)
	require.NoError(t, b.ep.Enable(ctx))
	first.Release()
	to, err := a.av.Insert(b.ep.Address())
	require.NoError(t, err)
	require.NoError(t, a.ep.SendTag(ctx, to, 5, pattern(10)))
	d, err := b.ep.NextTag(ctx, efa.AnyTag)
	require.NoError(t, err)
	require.Equal(t, uint64(5), d.Tag)
	d.Release()
}

package efa_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// TestNext: messages of any size arrive whole, in their order, in buffers of the endpoint's.
func TestNext(t *testing.T) {
	everywhere(t, efa.EndpointConfig{Protocol: efa.ProtocolConfig{MinRead: 500_000}}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		sizes := []int{0, 1, 8, 8000, 8800, 20_000, 65_536, 65_537, 1 << 20, 3 << 20, 17, 5 << 20}
		src := pattern(5 << 20)
		var sends sync.WaitGroup
		sends.Go(func() {
			for _, n := range sizes {
				if err := a.ep.Send(ctx, a.peer, src[:n], efa.Data(uint64(n))); err != nil {
					t.Errorf("send of %d: %v", n, err)
					return
				}
			}
		})
		var kept []efa.Delivery
		for _, n := range sizes {
			d, err := b.ep.Next(ctx)
			require.NoError(t, err)
			require.Equal(t, []any{n, n, uint64(n), b.peer}, []any{len(d.Body), d.N, d.Data, d.From})
			kept = append(kept, d)
		}
		for _, d := range kept {
			require.True(t, bytes.Equal(src[:d.N], d.Body))
			d.Release()
			d.Release() // does nothing
		}
		sends.Wait()
	})
}

// TestNextTag takes what matches, and leaves the rest.
func TestNextTag(t *testing.T) {
	a, b := lab{dev: sim.DeviceConfig{}}.open(t)
	ctx := testContext(t)
	for i, n := range []int{10, 30_000, 20} {
		require.NoError(t, a.ep.SendTag(ctx, a.peer, uint64(i), pattern(n)))
	}
	for _, tag := range []uint64{1, 2, 0} {
		d, err := b.ep.NextTag(ctx, efa.Match{Tag: tag}, efa.From(b.peer))
		require.NoError(t, err)
		require.Equal(t, tag, d.Tag)
		require.Equal(t, pattern(d.N), d.Body)
		d.Release()
	}
}

// TestMessages: the loop gives buffers back, but for those that are kept; it ends with its
// context.
func TestMessages(t *testing.T) {
	a, b := lab{dev: sim.DeviceConfig{}, ep: efa.EndpointConfig{NextMemory: 1 << 20}}.open(t)
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	const rounds = 100
	var sends sync.WaitGroup
	sends.Go(func() {
		for i := range rounds {
			if err := a.ep.Send(ctx, a.peer, pattern(i*1000)); err != nil {
				t.Errorf("send: %v", err)
				return
			}
		}
	})
	var kept []efa.Delivery
	n := 0
	for d, err := range b.ep.Messages(ctx) {
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, rounds, n)
			n++
			continue // it is over all the same
		}
		require.Equal(t, n*1000, d.N)
		if n%50 == 0 {
			d.Keep()
			kept = append(kept, d)
		}
		if n++; n == rounds {
			sends.Wait()
			cancel()
		}
	}
	require.Equal(t, rounds+1, n)
	for i, d := range kept {
		require.Equal(t, pattern(i*50_000), d.Body)
		d.Release()
	}
	for range b.ep.Messages(ctx) {
		break
	}
}

// TestNextMemory: when what may be lent is lent, messages wait, and nothing is lost; a message
// longer than all of it is an error of that message alone, and can be claimed.
func TestNextMemory(t *testing.T) {
	everywhere(t, efa.EndpointConfig{NextMemory: 200_000}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		require.Equal(t, 200_000, b.ep.Config().NextMemory)
		sizes := []int{150_000, 10, 150_000, 300_000, 20, 400_000, 30}
		var ops []*efa.Op
		for i, n := range sizes {
			ops = append(ops, start(t, a, &efa.SendReq{To: a.peer, Buf: pattern(n), HasData: true, Data: uint64(i)}))
		}
		next := func() (efa.Delivery, error) { return b.ep.Next(ctx) }
		first, err := next()
		require.NoError(t, err)
		require.Equal(t, pattern(150_000), first.Body)
		small, err := next()
		require.NoError(t, err)
		require.Equal(t, 10, small.N)

		// The third has to wait; the call that began to take it may give up.
		gone, cancel := context.WithCancel(ctx)
		errs := make(chan error)
		go func() {
			_, err := b.ep.Next(gone)
			errs <- err
		}()
		cancel()
		require.ErrorIs(t, <-errs, context.Canceled)
		first.Release()
		third, err := next()
		require.NoError(t, err)
		require.Equal(t, []any{uint64(2), 150_000}, []any{third.Data, third.N})
		third.Release()
		small.Release()

		var long *efa.TooLongError
		_, err = next()
		require.ErrorAs(t, err, &long)
		require.ErrorIs(t, err, efa.ErrMsgSize)
		require.Equal(t, 300_000, long.Claimed.Message.N)
		buf := make([]byte, 300_000)
		m, err := long.Claimed.Recv(ctx, buf)
		require.NoError(t, err)
		require.Equal(t, pattern(300_000), buf[:m.N])

		seen := 0
		for d, err := range b.ep.Messages(ctx) {
			switch seen++; seen {
			case 1, 3:
				require.NoError(t, err)
				require.Equal(t, 15+5*seen, d.N)
			case 2:
				require.ErrorAs(t, err, &long)
				require.NoError(t, long.Claimed.Discard(ctx))
			}
			if seen == 3 {
				break
			}
		}
		for _, op := range ops {
			_, err := op.Wait(ctx)
			require.NoError(t, err)
		}
	})
}

// TestNextMany: several goroutines take the messages of several senders, each once, while they
// give up now and then.
func TestNextMany(t *testing.T) {
	hub := newHub(t, 4)
	ctx := testContext(t)
	const each, takers = 200, 3
	var work sync.WaitGroup
	for from, s := range hub[1:] {
		work.Go(func() {
			for i := range each {
				n := i * 37 % 30_000
				if err := s.ep.Send(ctx, s.peer, pattern(n), efa.Data(uint64(from*each+i))); err != nil {
					t.Errorf("send: %v", err)
				}
			}
		})
	}
	var mu sync.Mutex
	got := map[uint64]int{}
	taken := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(got)
	}
	all, done := context.WithCancel(ctx)
	for range takers {
		work.Go(func() {
			for taken() < 3*each {
				one, cancel := context.WithCancel(all)
				if taken()%5 == 0 {
					go cancel()
				}
				d, err := hub[0].ep.Next(one)
				cancel()
				if errors.Is(err, context.Canceled) {
					continue
				}
				if err != nil || !bytes.Equal(pattern(d.N), d.Body) {
					t.Errorf("next: %v, %d bytes", err, d.N)
					return
				}
				mu.Lock()
				if got[d.Data]++; len(got) == 3*each {
					done()
				}
				mu.Unlock()
				d.Release()
			}
		})
	}
	work.Wait()
	done()
	require.Len(t, got, 3*each)
	for k, n := range got {
		require.Equal(t, 1, n, k)
	}
}

// TestNextClosed: Close ends those who wait.
func TestNextClosed(t *testing.T) {
	a, b := lab{dev: sim.DeviceConfig{}, ep: efa.EndpointConfig{NextMemory: 20_000}}.open(t)
	ctx := testContext(t)
	op := start(t, a, &efa.SendReq{To: a.peer, Buf: make([]byte, 20_000)})
	d, err := b.ep.Next(ctx)
	require.NoError(t, err)
	_, err = op.Wait(ctx)
	require.NoError(t, err)
	errs := make(chan error)
	go func() { // waits for memory
		_, err := b.ep.Next(ctx)
		errs <- err
	}()
	require.NoError(t, b.ep.Close())
	require.ErrorIs(t, <-errs, efa.ErrClosed)
	_, err = b.ep.Next(ctx)
	require.ErrorIs(t, err, efa.ErrClosed)
	require.Len(t, d.Body, 20_000)
	d.Release()
}

// TestNextAllocatesNothing: a short message allocates nothing on its way.
func TestNextAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	a, b := lab{dev: sim.DeviceConfig{}, mode: efa.ProgressManual}.open(t)
	ctx, msg := context.Background(), make([]byte, 100)
	one := func() {
		_ = a.ep.Send(ctx, a.peer, msg)
		d, err := b.ep.Next(ctx)
		if err == nil {
			d.Release()
		}
	}
	for range 100 {
		one()
	}
	require.Less(t, fewestAllocs(100, one), 0.1)
}

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

// TestPacketReq: a posted receive of one packet takes that alone; a longer message is claimed at once, and
// can be received or thrown away.
func TestPacketReq(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		buf := make([]byte, 1000)
		for _, early := range []bool{true, false} { // the message comes before or after the receive
			for _, n := range []int{0, 8, 1000, 1001, 100_000, 3 << 20} {
				var op, sent *efa.Op
				send := func() { sent = start(t, a, &efa.SendReq{To: a.peer, Buf: pattern(n), Tagged: true, Tag: 7}) }
				if early {
					send()
					_, err := b.ep.PeekTag(ctx, efa.Match{Tag: 7}, efa.Wait)
					require.NoError(t, err)
				}
				op = start(t, b, &efa.PacketReq{Tagged: true, Tag: 7, Buf: buf})
				if !early {
					send()
				}
				c, err := op.Wait(ctx)
				var long *efa.TooLongError
				require.Equal(t, n > len(buf), errors.As(err, &long), "%d bytes: %v", n, err)
				require.Equal(t, n, c.N)
				switch {
				case long == nil:
					require.NoError(t, err)
					require.Equal(t, pattern(n), buf[:n])
				case early:
					require.NoError(t, long.Claimed.Discard(ctx))
				default:
					p := make([]byte, n)
					_, err := long.Claimed.Recv(ctx, p)
					require.NoError(t, err)
					require.Equal(t, pattern(n), p)
				}
				done(t, sent)
			}
		}
		op := start(t, b, &efa.PacketReq{Buf: buf})
		op.Cancel()
		_, err := op.Wait(ctx)
		require.ErrorIs(t, err, efa.ErrCanceled)
		for _, r := range []*efa.PacketReq{{Bufs: [][]byte{buf}}, {Multi: true, Buf: buf}} {
			_, err = b.ep.Start(r)
			require.ErrorIs(t, err, efa.ErrInvalid)
		}
	})
}

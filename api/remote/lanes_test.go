package remote_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/remote"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

// bounded is an actor with a mailbox for two messages, which it begins to take when it may.
func (p *process) bounded(tb testing.TB) (got <-chan any, may chan struct{}) {
	all, may := make(chan any, 1<<17), make(chan struct{})
	_, err := p.Root.SpawnNamed(actor.PropsFromFunc(func(c actor.Context) {
		if m, ok := c.Message().(*word); ok {
			<-may
			all <- m
		}
	}, actor.WithMailbox(actor.Bounded(2))), "slow")
	require.NoError(tb, err)
	return all, may
}

// TestBounded: an actor whose bounded mailbox is full holds up those who send to it, in their order, and
// nobody else; Close does not wait for it.
func TestBounded(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	a, b, c := start(t, f, remote.Config{}), start(t, f, remote.Config{Queue: 1 << 20, Patience: long}), start(t, f, remote.Config{})
	a.spawn(t, "echo", echo)
	got, may := a.bounded(t)
	const messages = 12 // MiB, so more than window, queue and mailbox
	done := make(chan int)
	go func() {
		for i := range messages {
			b.Root.Send(a.at("slow"), &word{strings.Repeat("x", 1<<20), i})
			done <- i
		}
		close(done)
	}()
	for range 3 {
		take(t, done)
	}
	for range 3 {
		_, err := c.Root.RequestFuture(a.at("echo"), &word{}, long).Result()
		require.NoError(t, err)
	}
	close(may)
	for range messages - 3 {
		take(t, done)
	}
	for i := range messages {
		require.Equal(t, i, next[*word](t, got).N)
	}
	require.Zero(t, b.Stats().DeadLetters)

	_, may = c.bounded(t)
	defer close(may)
	for i := range 10 {
		b.Root.Send(c.at("slow"), &word{"", i})
	}
	c.spawn(t, "echo", echo)
	_, err = a.Root.RequestFuture(c.at("echo"), &word{}, long).Result()
	require.NoError(t, err)
	require.NoError(t, c.Close(soon(t)))
}

// TestSlowly: peers whose messages take a moment each do not have the time of all others.
func TestSlowly(t *testing.T) {
	f, err := sim.New(sim.Config{InOrder: true})
	require.NoError(t, err)
	p, a := start(t, f, remote.Config{}), start(t, f, remote.Config{})
	p.spawn(t, "echo", echo)
	_, err = a.Root.RequestFuture(p.at("echo"), &word{}, long).Result()
	require.NoError(t, err)
	const messages = 3000
	var handled atomic.Int32
	_, err = p.Root.SpawnNamed(actor.PropsFromFunc(func(c actor.Context) {
		if _, ok := c.Message().(*actor.Touch); ok {
			<-clock.NewTimer(time.Millisecond).C
			handled.Add(1)
		}
	}, actor.WithMailbox(actor.Bounded(2))), "inbox")
	require.NoError(t, err)
	foes := []*stranger{strangerOf(t, f, p), strangerOf(t, f, p)}
	for range messages / len(foes) {
		for _, s := range foes {
			s.send(data, s.mine, envelope(0, &actor.Touch{}))
		}
	}
	_, err = a.Root.RequestFuture(p.at("echo"), &word{}, long).Result()
	require.NoError(t, err)
	require.Less(t, handled.Load(), int32(messages-100))
}

// TestHeldBack: what a process has not handled is a window at most, whatever its peers send it; a peer that sends
// more loses its session.
func TestHeldBack(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	p := start(t, f, remote.Config{})
	p.spawn(t, "echo", echo)
	_, may := p.bounded(t)
	defer close(may)
	s, a := strangerOf(t, f, p), start(t, f, remote.Config{})
	lost := events[*remote.Lost](t, p)
	b := append(text([]byte{0}, "slow"), 0)
	one := text(text(text(b, "json"), "*remote_test.word"), `{"Text":"`+strings.Repeat("x", 4000)+`"}`)
	for sent := 0; ; sent += len(one) {
		require.Less(t, sent, 64*remote.Window) // it takes a moment until it is seen
		s.send(data, s.mine, one)
		select {
		case e := <-lost:
			require.ErrorContains(t, e.Err, "not handled")
		default:
			continue
		}
		break
	}
	require.Greater(t, p.Stats().Malformed, uint64(0))
	_, err = a.Root.RequestFuture(p.at("echo"), &word{}, long).Result()
	require.NoError(t, err)
}

// toSlow is the body of a DATA frame with a word for the actor of bounded.
func toSlow(s string, n int) []byte {
	b := text(text(append(text([]byte{0}, "slow"), 0), "json"), "*remote_test.word")
	return text(b, fmt.Sprintf(`{"Text":%q,"N":%d}`, s, n))
}

// say sends words, of so many bytes each, and returns what they count of the window.
func (s *stranger) say(from, to, bytes int) (counted int) {
	for i := from; i < to; i++ {
		b := toSlow(strings.Repeat("x", bytes), i)
		s.send(data, s.mine, b)
		counted += len(b) + remote.FrameCost
	}
	return counted
}

// waits waits until so many bytes wait, but for five small words: those that the actor, its mailbox and who is
// at the mailbox have taken.
func (p *process) waits(t *testing.T, counted int) {
	require.Eventually(t, func() bool { return p.Waiting() >= counted-5*(remote.FrameCost+100) }, testenv.Hang, time.Millisecond)
}

// TestFullWindow: a peer that has sent all that it may, and then asks, answers and ends, loses nothing.
func TestFullWindow(t *testing.T) {
	s := newStranger(t)
	got, may := s.p.bounded(t)
	lost := events[*remote.Lost](t, s.p)
	const small = 6
	n, counted := small, s.say(0, small, 0)
	for ; counted < remote.Window; n++ {
		counted += s.say(n, n+1, 32<<10)
	}
	s.p.waits(t, counted)
	for range 10 {
		s.send(ping, s.mine, nil)
		s.send(reset, strangers+1, nil)
		s.send(welcome, s.mine, append([]byte{welcome}, make([]byte, 8)...))
	}
	s.send(ping, s.mine+1, nil)
	s.next(reset) // while messages wait
	s.send(bye, s.mine, nil)
	close(may)
	for i := range n {
		require.Equal(t, i, next[*word](t, got).N)
	}
	require.ErrorIs(t, take(t, lost).Err, remote.ErrClosed)
	require.Zero(t, s.p.Stats().Malformed)
}

// TestEndsBehind: what a peer has sent comes, in order, though its endpoint was closed before it was handled.
func TestEndsBehind(t *testing.T) {
	s := newStranger(t)
	got, may := s.p.bounded(t)
	lost := events[*remote.Lost](t, s.p)
	counted, n := 0, 0
	for range 20 {
		counted += s.say(n, n+100, 0) + s.say(n+100, n+101, 20<<10) // of more than a packet
		n += 101
	}
	s.p.waits(t, counted)
	require.NoError(t, s.ep.Close())
	require.ErrorIs(t, take(t, lost).Err, efa.ErrPeerFailed)
	close(may)
	for i := range n {
		require.Equal(t, i, next[*word](t, got).N)
	}
}

// TestBegunAnew: what waits of a session is dropped when its peer begins another one, whose messages would
// come before it.
func TestBegunAnew(t *testing.T) {
	f, err := sim.New(sim.Config{InOrder: true})
	require.NoError(t, err)
	p := start(t, f, remote.Config{})
	got, may := p.bounded(t)
	s := strangerOf(t, f, p)
	const messages = 20
	s.say(0, messages, 0)
	s.send(hello, strangers+1, saying(s.name(), s.name()))
	_, body := s.next(welcome)
	s.mine = binary.LittleEndian.Uint64(body[1:])
	s.say(messages, messages+1, 0)
	close(may)
	old := 0
	for next[*word](t, got).N != messages {
		old++
	}
	require.LessOrEqual(t, old, 4) // one in the actor, two in its mailbox, one on its way there
}

// TestSubscribers: who subscribes to Connected and Lost may send and ask, also the process that it is
// about, and close the Remote.
func TestSubscribers(t *testing.T) {
	a, b := two(t)
	a.spawn(t, "echo", echo)
	b.spawn(t, "echo", echo)
	greeted := b.inbox(t)
	answers := make(chan error, 10)
	for _, p := range []*process{a, b} {
		p.EventStream.Subscribe(func(e any) {
			switch m := e.(type) {
			case *remote.Connected:
				p.Root.Send(actor.NewPID(m.Address, "inbox"), &word{"greeting", 0})
				_, err := p.Root.RequestFuture(actor.NewPID(m.Address, "echo"), &word{}, long).Result()
				answers <- err
			case *remote.Lost:
				answers <- p.Remote.Close(soon(t))
			}
		})
	}
	_, err := b.Root.RequestFuture(a.at("echo"), &word{}, long).Result()
	require.NoError(t, err)
	require.Equal(t, "greeting", next[*word](t, greeted).Text)
	require.NoError(t, take(t, answers))
	require.NoError(t, take(t, answers))
	require.NoError(t, a.Remote.Close(soon(t)))
	require.NoError(t, take(t, answers))
	require.ErrorIs(t, b.Remote.Close(soon(t)), remote.ErrClosed)
}

// TestCloseIsBounded: Close waits for the application's own code until its context ends.
func TestCloseIsBounded(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	may, began := make(chan struct{}), make(chan struct{}, 1)
	cfg := called(nil)
	resolve := cfg.Resolve
	cfg.Resolve = func(ctx context.Context, name string) (_ efa.Address, err error) {
		if name == "slow" {
			began <- struct{}{}
			<-may
			return efa.Address{}, errors.New("too late")
		}
		return resolve(ctx, name)
	}
	p := start(t, f, cfg)
	p.Root.Send(actor.NewPID("slow", "x"), &word{})
	take(t, began)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.Close(ctx), context.DeadlineExceeded)
	close(may)
}

// TestTooLongThere: messages longer than the receiver takes are dropped there, and hold up none that come after.
func TestTooLongThere(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	const most = 1 << 20
	a, b := start(t, f, remote.Config{Patience: long}), start(t, f, remote.Config{MaxMessage: most})
	b.spawn(t, "echo", echo)
	const messages = 3 * remote.Window / (2 * most)
	for range messages {
		a.Root.Send(b.at("echo"), &word{strings.Repeat("x", 2*most), 0})
	}
	_, err = a.Root.RequestFuture(b.at("echo"), &word{}, long).Result()
	require.NoError(t, err)
	require.EqualValues(t, messages, b.Stats().Malformed)
}

// TestCloseLeavesDeadLetters: Close waits for a subscriber of dead letters until its context ends.
func TestCloseLeavesDeadLetters(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	may, began := make(chan struct{}), make(chan struct{}, 1)
	p := start(t, f, remote.Config{Resolve: func(ctx context.Context, _ string) (efa.Address, error) {
		<-ctx.Done()
		return efa.Address{}, ctx.Err()
	}})
	sub := p.EventStream.Subscribe(func(e any) {
		if _, ok := e.(*actor.DeadLetterEvent); ok {
			began <- struct{}{}
			<-may
		}
	})
	defer p.EventStream.Unsubscribe(sub)
	p.Root.Send(actor.NewPID("x", "y"), &word{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	closed := make(chan error, 1)
	go func() { closed <- p.Close(ctx) }()
	take(t, began)
	require.ErrorIs(t, take(t, closed), context.Canceled)
	close(may)
}

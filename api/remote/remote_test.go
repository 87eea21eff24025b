package remote_test

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/remote"
)

const long = time.Minute

// TestRequest: a request gets its answer, protobuf or not, of any length, by name and by the PID that comes
// with a message.
func TestRequest(t *testing.T) {
	a, b := two(t)
	b.spawn(t, "echo", echo)
	for _, n := range []int{0, 1, 5_000, 100_000, 3_000_000} {
		text := strings.Repeat("x", n)
		m, err := a.Root.RequestFuture(b.at("echo"), &word{text, n}, long).Result()
		require.NoError(t, err)
		require.Equal(t, &word{text, n}, m)
	}
	m, err := a.Root.RequestFuture(b.at("echo"), &actor.Touch{}, long).Result()
	require.NoError(t, err)
	who := m.(*actor.Touched).Who
	require.Equal(t, b.at("echo").String(), who.String())
	m, err = a.Root.RequestFuture(who, &word{"by PID", 1}, long).Result()
	require.NoError(t, err)
	require.Equal(t, &word{"by PID", 1}, m)
}

// TestCrew: a question takes one new goroutine, which is the actor's: those that receive and send are used again, as their
// stacks have grown.
func TestCrew(t *testing.T) {
	a, b := two(t)
	b.spawn(t, "echo", echo)
	ask := func() {
		_, err := a.Root.RequestFuture(b.at("echo"), &word{}, long).Result()
		require.NoError(t, err)
	}
	created := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	count := func() uint64 {
		metrics.Read(created)
		return created[0].Value.Uint64()
	}
	const questions = 1000
	for range questions / 10 {
		ask()
	}
	before := count()
	for range questions {
		ask()
	}
	require.Less(t, count()-before, uint64(questions+questions/2))
}

// TestBothWays: actors of both sides that have never heard of each other begin at once.
func TestBothWays(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	for range 20 {
		a, b := start(t, f, remote.Config{}), start(t, f, remote.Config{})
		a.spawn(t, "echo", echo)
		b.spawn(t, "echo", echo)
		var asking sync.WaitGroup
		for from, to := range map[*process]*process{a: b, b: a} {
			asking.Go(func() {
				_, err := from.Root.RequestFuture(to.at("echo"), &word{}, long).Result()
				if err != nil {
					t.Error(err)
				}
			})
		}
		asking.Wait()
		require.NoError(t, a.Close(soon(t)))
		require.NoError(t, b.Close(soon(t)))
	}
}

// TestOrder: messages of several senders arrive each in its sender's order, long ones among them.
func TestOrder(t *testing.T) {
	const senders, messages = 4, 5_000
	a, b := two(t)
	got := b.inbox(t)
	for s := range senders {
		go func() {
			for i := range messages {
				text := fmt.Sprint(s)
				if i%500 == 0 {
					text += strings.Repeat("x", 50_000)
				}
				a.Root.Send(b.at("inbox"), &word{text, i})
			}
		}()
	}
	var seen [senders]int
	for range senders * messages {
		w := next[*word](t, got)
		s := w.Text[0] - '0'
		require.Equal(t, seen[s], w.N)
		seen[s]++
	}
	require.EqualValues(t, senders*messages, b.Stats().Received)
}

// TestHeaders: a message's header and sender come with it.
func TestHeaders(t *testing.T) {
	a, b := two(t)
	got := make(chan map[string]string, 1)
	b.spawn(t, "header", func(c actor.Context) {
		if _, ok := c.Message().(*word); ok {
			got <- c.MessageHeader().ToMap()
			c.Respond(&word{c.Sender().Address, 0})
		}
	})
	header := map[string]string{"traceparent": "00-1", "tenant": ""}
	answer := actor.NewFuture(a.ActorSystem, long)
	env := &actor.MessageEnvelope{Message: &word{}, Sender: answer.PID()}
	for k, v := range header {
		env.SetHeader(k, v)
	}
	a.Root.Send(b.at("header"), env)
	m, err := answer.Result()
	require.NoError(t, err)
	require.Equal(t, header, take(t, got))
	require.Equal(t, &word{a.Address(), 0}, m)
}

// TestForeignSender: who answers a message that was passed on answers its sender.
func TestForeignSender(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	a, b, c := start(t, f, remote.Config{}), start(t, f, remote.Config{}), start(t, f, remote.Config{})
	c.spawn(t, "echo", echo)
	b.spawn(t, "forward", func(ctx actor.Context) {
		if _, ok := ctx.Message().(*word); ok {
			ctx.Forward(c.at("echo"))
		}
	})
	m, err := a.Root.RequestFuture(b.at("forward"), &word{"x", 7}, long).Result()
	require.NoError(t, err)
	require.Equal(t, &word{"x", 7}, m)
}

// TestWatch: watchers learn that an actor stops, that there is none, and not of what they do not
// watch any more.
func TestWatch(t *testing.T) {
	a, b := two(t)
	type unwatch struct{ *actor.PID }
	got := make(chan any, 10)
	watcher := a.spawn(t, "watcher", func(c actor.Context) {
		switch m := c.Message().(type) {
		case *actor.PID:
			c.Watch(m)
			got <- m
		case unwatch:
			c.Unwatch(m.PID)
			got <- m
		case *actor.Terminated:
			got <- m
		}
	})
	for _, stop := range []func(*actor.PID){a.Root.Stop, a.Root.Poison, func(*actor.PID) { b.Root.Stop(b.NewLocalPID("x")) }} {
		b.spawn(t, "x", echo)
		a.Root.Send(watcher, b.at("x"))
		next[*actor.PID](t, got)
		_, err := a.Root.RequestFuture(b.at("x"), &word{}, long).Result() // it is watched by now
		require.NoError(t, err)
		stop(b.at("x"))
		m := next[*actor.Terminated](t, got)
		require.Equal(t, b.at("x").String(), m.Who.String())
		require.Equal(t, actor.TerminatedReason_Stopped, m.Why)
		require.Eventually(t, func() bool {
			_, there := b.ProcessRegistry.GetLocal("x")
			return !there
		}, long, time.Millisecond)
	}
	a.Root.Send(watcher, b.at("nobody"))
	m := next[*actor.Terminated](t, got)
	require.Equal(t, actor.TerminatedReason_NotFound, m.Why)

	b.spawn(t, "y", echo)
	a.Root.Send(watcher, b.at("y"))
	a.Root.Send(watcher, unwatch{b.at("y")})
	next[unwatch](t, got)
	_, err := a.Root.RequestFuture(b.at("y"), &word{}, long).Result()
	require.NoError(t, err)
	require.NoError(t, b.Root.StopFuture(b.NewLocalPID("y")).Wait())
	a.Root.Send(watcher, b.at("nobody else"))
	require.Equal(t, "nobody else", next[*actor.Terminated](t, got).Who.Id)
}

// TestDeadLetter: a message to an actor that does not exist is a dead letter there, and the
// future's.
func TestDeadLetter(t *testing.T) {
	a, b := two(t)
	dead := events[*actor.DeadLetterEvent](t, b)
	_, err := a.Root.RequestFuture(b.at("nobody"), &word{"x", 1}, long).Result()
	require.ErrorIs(t, err, actor.ErrDeadLetter)
	require.Equal(t, &word{"x", 1}, take(t, dead).Message)
}

// TestUnreachable: where nobody is, messages are dead letters, and watchers are told.
func TestUnreachable(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	a, b := start(t, f, remote.Config{Timeout: 100 * time.Millisecond}), start(t, f, remote.Config{})
	gone := b.at("echo")
	require.NoError(t, b.Close(soon(t)))
	lost := events[*remote.Lost](t, a)
	_, err = a.Root.RequestFuture(gone, &word{}, long).Result()
	require.ErrorIs(t, err, actor.ErrDeadLetter)
	require.ErrorIs(t, take(t, lost).Err, remote.ErrUnreachable)
	got := make(chan any, 10)
	a.spawn(t, "watcher", func(c actor.Context) {
		switch m := c.Message().(type) {
		case *actor.Started:
			c.Watch(gone)
		case *actor.Terminated:
			got <- m
		}
	})
	require.Equal(t, actor.TerminatedReason_AddressTerminated, next[*actor.Terminated](t, got).Why)
	_, err = a.Root.RequestFuture(actor.NewPID("no address at all", "x"), &word{}, long).Result()
	require.ErrorIs(t, err, actor.ErrDeadLetter)
}

// TestClose: the others learn that a process has closed its Remote.
func TestClose(t *testing.T) {
	a, b := two(t)
	b.spawn(t, "echo", echo)
	got := make(chan any, 10)
	watcher := a.spawn(t, "watcher", func(c actor.Context) {
		switch m := c.Message().(type) {
		case *word:
			c.Watch(b.at("echo"))
			c.Respond(m)
		case *actor.Terminated:
			got <- m
		}
	})
	_, err := a.Root.RequestFuture(watcher, &word{}, long).Result()
	require.NoError(t, err)
	_, err = a.Root.RequestFuture(b.at("echo"), &word{}, long).Result()
	require.NoError(t, err)
	lost := events[*remote.Lost](t, a)
	require.NoError(t, b.Close(soon(t)))
	require.ErrorIs(t, b.Close(soon(t)), remote.ErrClosed)
	require.ErrorIs(t, take(t, lost).Err, remote.ErrClosed)
	m := next[*actor.Terminated](t, got)
	require.Equal(t, actor.TerminatedReason_AddressTerminated, m.Why)
	require.Equal(t, b.at("echo").String(), m.Who.String())
	_, err = b.Root.RequestFuture(a.at("watcher"), &word{}, long).Result()
	require.ErrorIs(t, err, actor.ErrDeadLetter)
}

// TestSpawn: kinds are spawned elsewhere, and errors say which.
func TestSpawn(t *testing.T) {
	a, b := two(t)
	b.Register("echo", actor.PropsFromFunc(echo))
	b.Register("broken", actor.PropsFromProducer(func() actor.Actor { panic("no actor") }))
	pid, err := a.Spawn(soon(t), b.Address(), "echo")
	require.NoError(t, err)
	m, err := a.Root.RequestFuture(pid, &word{"x", 1}, long).Result()
	require.NoError(t, err)
	require.Equal(t, &word{"x", 1}, m)
	pid, err = a.SpawnNamed(soon(t), b.Address(), "mine", "echo")
	require.NoError(t, err)
	require.Equal(t, b.at("mine").String(), pid.String())
	again, err := a.SpawnNamed(soon(t), b.Address(), "mine", "echo")
	require.ErrorIs(t, err, remote.ErrNameExists)
	require.Equal(t, pid.String(), again.String())
	_, err = a.Spawn(soon(t), b.Address(), "other")
	require.ErrorIs(t, err, remote.ErrNoKind)
	_, err = a.Spawn(soon(t), b.Address(), "broken")
	require.ErrorContains(t, err, "no actor")
	_, err = a.Spawn(soon(t), a.Address(), "echo")
	require.ErrorIs(t, err, remote.ErrNoKind, "of the own process, which has registered none")
}

// failing is a codec that panics, or fails, on either side.
type failing struct{}

type bad struct{ Where string }

func (failing) Name() string              { return "failing" }
func (failing) Takes(t reflect.Type) bool { return t == reflect.TypeFor[*bad]() }

func (failing) Append(b []byte, m any) ([]byte, string, error) {
	switch where := m.(*bad).Where; where {
	case "append":
		panic(where)
	case "append error":
		return b, "", errors.New(where)
	default:
		return append(b, where...), "bad", nil
	}
}

func (failing) Decode(_ string, b []byte) (any, error) {
	if string(b) == "decode" {
		panic("decode")
	}
	return nil, errors.New(string(b))
}

// TestBadCodec: a codec that panics or fails ends its message alone.
func TestBadCodec(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	cfg := remote.Config{Codecs: []remote.Codec{failing{}}}
	a, b := start(t, f, cfg), start(t, f, cfg)
	b.spawn(t, "echo", echo)
	for _, where := range []string{"append", "append error", "decode", "decode error"} {
		_, err := a.Root.RequestFuture(b.at("echo"), &bad{where}, long).Result()
		require.ErrorIs(t, err, actor.ErrDeadLetter, where)
		_, err = a.Root.RequestFuture(b.at("echo"), &word{}, long).Result()
		require.NoError(t, err)
	}
	require.EqualValues(t, 2, b.Stats().Undecodable)
	_, err = a.Root.RequestFuture(b.at("echo"), make(chan int), long).Result()
	require.ErrorIs(t, err, actor.ErrDeadLetter, "no codec takes a channel")
}

// TestBackPressure: a sender that is faster than the other process waits, and loses nothing.
func TestBackPressure(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	a, b := start(t, f, remote.Config{Queue: 10_000}), start(t, f, remote.Config{})
	got := b.inbox(t)
	const messages = 3_000
	go func() {
		for i := range messages {
			a.Root.Send(b.at("inbox"), &word{strings.Repeat("x", 3_000), i})
		}
	}()
	for i := range messages {
		require.Equal(t, i, next[*word](t, got).N)
	}
	require.Zero(t, a.Stats().DeadLetters)
}

// TestTooLong: a message that may not be so long is a dead letter.
func TestTooLong(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	a, b := start(t, f, remote.Config{MaxMessage: 100}), start(t, f, remote.Config{})
	b.spawn(t, "echo", echo)
	_, err = a.Root.RequestFuture(b.at("echo"), &word{strings.Repeat("x", 100), 0}, long).Result()
	require.ErrorIs(t, err, actor.ErrDeadLetter)
}

// TestStartFirst: Start comes before what is spawned, and once.
func TestStartFirst(t *testing.T) {
	a, _ := two(t)
	_, err := new(remote.Config).Start(a.ActorSystem, a.ep)
	require.ErrorIs(t, err, remote.ErrStarted)
	s := newSystem()
	s.Root.Spawn(actor.PropsFromFunc(echo))
	_, err = new(remote.Config).Start(s, a.ep)
	require.ErrorIs(t, err, remote.ErrStarted)
	s.Shutdown()
}

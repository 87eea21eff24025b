package remote_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
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

// listening makes a process that has an endpoint of its own on a simulated fabric.
func listening(tb testing.TB, f *sim.Fabric, at string, cfg remote.Config) *process {
	d, err := f.OpenDevice(sim.DeviceConfig{})
	require.NoError(tb, err)
	system := newSystem()
	cfg.Setup = &efa.Setup{Fabric: efa.Config{Device: d}}
	cfg.Codecs = append(cfg.Codecs, codecs()...)
	r, err := cfg.Listen(soon(tb), system, at)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		_ = r.Close(soon(tb)) // perhaps for the second time
		require.NoError(tb, d.Close())
		system.Shutdown()
	})
	return &process{ActorSystem: system, Remote: r}
}

// called is a Config by which a process is found under names.
func called(names map[string]*process) remote.Config {
	return remote.Config{Resolve: func(_ context.Context, name string) (efa.Address, error) {
		if p := names[name]; p != nil {
			name = p.Address()
		}
		return efa.ParseAddress(name)
	}}
}

// watching is an actor that watches what watch names, and gives to the test what ends.
func (p *process) watching(tb testing.TB) (watch func(*actor.PID), ended <-chan any) {
	got := make(chan any, 10)
	watcher := p.spawn(tb, "watcher", func(c actor.Context) {
		switch m := c.Message().(type) {
		case *actor.PID:
			c.Watch(m)
			c.Respond(m)
		case *actor.Terminated:
			got <- m
		}
	})
	return func(who *actor.PID) {
		_, err := p.Root.RequestFuture(watcher, who, long).Result()
		require.NoError(tb, err)
	}, got
}

// TestTwoNames: names of one process share a session: each works, messages by either are in one order, watches end by the name
// that the watcher has used, and each name is connected and lost.
func TestTwoNames(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	names := map[string]*process{}
	a, b := start(t, f, called(names)), start(t, f, remote.Config{})
	names["cache"], names["store"] = b, b
	b.spawn(t, "echo", echo)
	connected, lost := events[*remote.Connected](t, a), events[*remote.Lost](t, a)
	all := []string{"cache", "store", b.Address()}
	for i := range 9 {
		_, err := a.Root.RequestFuture(actor.NewPID(all[i%3], "echo"), &word{}, long).Result()
		require.NoError(t, err)
	}
	for _, name := range all {
		require.Equal(t, name, take(t, connected).Address)
	}
	got := b.inbox(t)
	for i := range 3000 {
		a.Root.Send(actor.NewPID(all[i%3], "inbox"), &word{"", i})
	}
	for i := range 3000 {
		require.Equal(t, i, next[*word](t, got).N)
	}
	watch, ended := a.watching(t)
	for _, name := range all[:2] {
		watch(actor.NewPID(name, "echo"))
	}
	a.Root.Stop(b.at("echo"))
	var by []string
	for range 2 {
		m := next[*actor.Terminated](t, ended)
		require.Equal(t, actor.TerminatedReason_Stopped, m.Why)
		by = append(by, m.Who.Address)
	}
	require.ElementsMatch(t, all[:2], by)
	require.Empty(t, lost)

	watch(actor.NewPID("store", "inbox"))
	_, err = a.Root.RequestFuture(actor.NewPID("store", "nobody"), &word{}, long).Result() // it is watched by now
	require.ErrorIs(t, err, actor.ErrDeadLetter)
	require.NoError(t, b.Close(soon(t)))
	m := next[*actor.Terminated](t, ended)
	require.Equal(t, "store", m.Who.Address)
	require.Equal(t, actor.TerminatedReason_AddressTerminated, m.Why)
	by = nil
	for range 3 {
		by = append(by, take(t, lost).Address)
	}
	require.ElementsMatch(t, all, by)
	for _, name := range all {
		_, err := a.Root.RequestFuture(actor.NewPID(name, "echo"), &word{}, long).Result()
		require.ErrorIs(t, err, actor.ErrDeadLetter)
	}
}

// TestWatchedWhileAsked: a watch by a name that is still asked for holds when that leads to a process with a session.
func TestWatchedWhileAsked(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	names, found := map[string]*process{}, make(chan struct{})
	cfg := called(names)
	cfg.Timeout = long
	resolve := cfg.Resolve
	cfg.Resolve = func(ctx context.Context, name string) (efa.Address, error) {
		if name == "cache" {
			<-found
		}
		return resolve(ctx, name)
	}
	a, b := start(t, f, cfg), start(t, f, remote.Config{})
	names["cache"] = b
	b.spawn(t, "echo", echo)
	_, err = a.Root.RequestFuture(b.at("echo"), &word{}, long).Result()
	require.NoError(t, err)
	watch, ended := a.watching(t)
	there := actor.NewPID("cache", "echo")
	watch(there)
	close(found)
	_, err = a.Root.RequestFuture(there, &word{}, long).Result() // it is watched by now
	require.NoError(t, err)
	a.Root.Stop(there)
	m := next[*actor.Terminated](t, ended)
	require.Equal(t, there.String(), m.Who.String())
	require.Equal(t, actor.TerminatedReason_Stopped, m.Why)
}

// TestAskedByAnotherName: a process that was asked for by a name that it does not know watches, and is
// watched, all the same.
func TestAskedByAnotherName(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	names := map[string]*process{}
	a, b := start(t, f, called(names)), start(t, f, remote.Config{})
	names["cache"] = b
	b.spawn(t, "echo", echo)
	a.spawn(t, "echo", echo)
	_, err = a.Root.RequestFuture(actor.NewPID("cache", "echo"), &word{}, long).Result()
	require.NoError(t, err)
	watch, ended := b.watching(t)
	watch(a.at("echo"))
	_, err = b.Root.RequestFuture(a.at("echo"), &word{}, long).Result() // it is watched by now
	require.NoError(t, err)
	a.Root.Stop(a.NewLocalPID("echo"))
	require.Equal(t, a.at("echo").String(), next[*actor.Terminated](t, ended).Who.String())
	require.Zero(t, a.Stats().Malformed)
}

// TestOwnNames: a process reaches itself by another name.
func TestOwnNames(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	names := map[string]*process{}
	a := start(t, f, called(names))
	names["self"] = a
	a.spawn(t, "echo", echo)
	there := actor.NewPID("self", "echo")
	for range 3 {
		m, err := a.Root.RequestFuture(there, &word{"x", 1}, long).Result()
		require.NoError(t, err)
		require.Equal(t, &word{"x", 1}, m)
	}
	watch, ended := a.watching(t)
	watch(there)
	a.Root.Stop(there)
	m := next[*actor.Terminated](t, ended)
	require.Equal(t, there.String(), m.Who.String())
	require.Equal(t, actor.TerminatedReason_Stopped, m.Why)
	watch(actor.NewPID("self", "nobody"))
	require.Equal(t, actor.TerminatedReason_NotFound, next[*actor.Terminated](t, ended).Why)
	_, err = a.Root.RequestFuture(actor.NewPID("self", "nobody"), &word{}, long).Result()
	require.ErrorIs(t, err, actor.ErrDeadLetter)
	pid, err := a.Spawn(soon(t), "self", "echo")
	require.ErrorIs(t, err, remote.ErrNoKind)
	require.Nil(t, pid)
}

// TestRestartedElsewhere: a name that leads to another process, once the former is gone, is used again.
func TestRestartedElsewhere(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	names := map[string]*process{}
	a, b, c := start(t, f, called(names)), start(t, f, remote.Config{}), start(t, f, remote.Config{})
	names["leader"] = b
	b.spawn(t, "echo", echo)
	there := actor.NewPID("leader", "echo")
	_, err = a.Root.RequestFuture(there, &word{}, long).Result()
	require.NoError(t, err)
	lost := events[*remote.Lost](t, a)
	require.NoError(t, b.Close(soon(t)))
	take(t, lost)
	c.spawn(t, "echo", func(ctx actor.Context) {
		if _, ok := ctx.Message().(*word); ok {
			ctx.Respond(&word{"c", 0})
		}
	})
	names["leader"] = c
	require.Eventually(t, func() bool { // dead letters, until it is asked for again
		m, err := a.Root.RequestFuture(there, &word{}, long).Result()
		return err == nil && m.(*word).Text == "c"
	}, testenv.Hang, time.Millisecond)
}

// TestChurn: processes that come, ask and close, many times what MaxAddresses allows, are all served, and nothing
// is left of them.
func TestChurn(t *testing.T) {
	const most = 4
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	server := listening(t, f, "", remote.Config{MaxAddresses: most})
	server.spawn(t, "echo", echo)
	lost := events[*remote.Lost](t, server)
	for i := range 10 * most {
		client := listening(t, f, "", remote.Config{})
		_, err := client.Root.RequestFuture(server.at("echo"), &word{}, long).Result()
		require.NoError(t, err, i)
		require.NoError(t, client.Close(soon(t)))
		require.Equal(t, client.Address(), take(t, lost).Address)
	}
	names, links, peers := server.Places()
	require.LessOrEqual(t, names, most)
	require.Zero(t, links)
	require.Zero(t, peers)
	require.Zero(t, server.Stats().DeadLetters)
}

// TestHeardAgain: a process whose session is over, and whose place was given back, is heard when it speaks again.
func TestHeardAgain(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	p := listening(t, f, "", remote.Config{})
	s := unknown(t, f, p)
	lost := events[*remote.Lost](t, p)
	for i := range uint64(3) {
		s.send(hello, strangers+i, saying(s.name(), s.name()))
		session, body := s.next(welcome)
		require.Equal(t, strangers+i, session)
		s.mine = binary.LittleEndian.Uint64(body[1:])
		s.send(bye, s.mine, nil)
		require.ErrorIs(t, take(t, lost).Err, remote.ErrClosed)
		require.Eventually(t, func() bool { // the answer before may be on its way
			_, _, peers := p.Places()
			return peers == 0
		}, testenv.Hang, time.Millisecond)
		answered := make(chan struct{})
		var asking sync.WaitGroup
		asking.Go(func() { // PING may be dropped while the place is given back, and comes again
			b := binary.LittleEndian.AppendUint64([]byte{ping}, s.mine)
			for again := clock.NewTimer(0); ; again.Reset(10 * time.Millisecond) {
				select {
				case <-again.C:
					_ = s.ep.SendTag(soon(t), s.to, frames, b)
				case <-answered:
					return
				}
			}
		})
		for session = 0; session != s.mine; {
			session, _ = s.next(reset)
		}
		close(answered)
		asking.Wait()
	}
}

// TestFullOfNames: names that are only asked for give way to a process that has said HELLO, and those that have a
// session do not.
func TestFullOfNames(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	cfg := remote.Config{MaxAddresses: 2, Resolve: func(ctx context.Context, name string) (efa.Address, error) {
		if a, err := efa.ParseAddress(name); err == nil {
			return a, nil
		}
		<-ctx.Done()
		return efa.Address{}, ctx.Err()
	}}
	server := start(t, f, cfg)
	server.spawn(t, "echo", echo)
	for i := range 4 {
		server.Root.Send(actor.NewPID(fmt.Sprint("slow:", i), "x"), &word{})
	}
	for i := range 3 {
		cfg := remote.Config{Timeout: long}
		if i == 2 {
			cfg.Timeout = time.Second
		}
		client := start(t, f, cfg)
		_, err := client.Root.RequestFuture(server.at("echo"), &word{}, long).Result()
		if i < 2 {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, actor.ErrDeadLetter)
		}
	}
}

// TestUnspecified: a process that listens at all of its host's addresses says by which others find it, or is
// refused at once.
func TestUnspecified(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	for _, at := range []string{"0.0.0.0:0", ":0", "[::]:0", "[::ffff:0.0.0.0]:0"} {
		_, err := new(remote.Config).Listen(soon(t), newSystem(), at)
		require.ErrorIs(t, err, efa.ErrInvalid, at)
		require.ErrorContains(t, err, "set Config.Advertise")
	}
	for _, to := range []string{"host", ":7", "0.0.0.0:7", "[::]:7", "host:http", "host:70000"} {
		_, err := (&remote.Config{Advertise: to}).Listen(soon(t), newSystem(), "127.0.0.1:0")
		require.ErrorIs(t, err, efa.ErrInvalid, to)
		require.ErrorContains(t, err, "Config.Advertise is")
	}
	_, err = (&remote.Config{Advertise: "host:7"}).Listen(soon(t), newSystem(), "")
	require.ErrorIs(t, err, efa.ErrInvalid)

	a := listening(t, f, ":0", remote.Config{Advertise: "localhost:0"})
	b := listening(t, f, "127.0.0.1:0", remote.Config{})
	host, port, err := net.SplitHostPort(a.Address())
	require.NoError(t, err)
	require.Equal(t, "localhost", host)
	require.NotEqual(t, "0", port)
	a.spawn(t, "echo", echo)
	b.spawn(t, "echo", echo)
	_, err = b.Root.RequestFuture(a.at("echo"), &word{}, long).Result()
	require.NoError(t, err)
	_, err = b.Root.RequestFuture(actor.NewPID("127.0.0.1:"+port, "echo"), &word{}, long).Result()
	require.NoError(t, err)
	_, err = a.Root.RequestFuture(b.at("echo"), &word{}, long).Result()
	require.NoError(t, err)
}

// TestForgottenName: a PID whose name the table has forgotten, and that has kept a link which is over, is a dead letter, and
// leads to the process again when that is there.
func TestForgottenName(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	names := map[string]*process{}
	cfg := called(names)
	cfg.MaxAddresses = 2
	a := start(t, f, cfg)
	lost := events[*remote.Lost](t, a)
	old, others := actor.NewPID("x", "echo"), 0
	comeAndGo := func(also ...*actor.PID) {
		b := start(t, f, remote.Config{})
		b.spawn(t, "echo", echo)
		names["x"] = b
		for _, pid := range append(also, old) {
			_, err := a.Root.RequestFuture(pid, &word{}, long).Result()
			require.NoError(t, err)
		}
		require.NoError(t, b.Close(soon(t)))
		require.Equal(t, "x", take(t, lost).Address)
		delete(names, "x")
		for range 3 { // the table forgets x
			others++
			other := fmt.Sprint("y", others)
			_, err := a.Root.RequestFuture(actor.NewPID(other, "echo"), &word{}, long).Result()
			require.ErrorIs(t, err, actor.ErrDeadLetter)
			require.Equal(t, other, take(t, lost).Address)
		}
	}
	comeAndGo()
	comeAndGo(actor.NewPID("x", "echo"))
	done := make(chan error)
	go func() {
		_, err := a.Root.RequestFuture(old, &word{}, long).Result()
		done <- err
	}()
	require.ErrorIs(t, take(t, done), actor.ErrDeadLetter)
	b := start(t, f, remote.Config{})
	b.spawn(t, "echo", echo)
	names["x"] = b
	require.Eventually(t, func() bool { // dead letters, until it is asked for again
		_, err := a.Root.RequestFuture(old, &word{}, long).Result()
		return err == nil
	}, testenv.Hang, time.Millisecond)
}

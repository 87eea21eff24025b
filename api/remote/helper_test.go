package remote_test

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/remote"
)

func TestMain(m *testing.M) {
	if child() {
		return
	}
	goleak.VerifyTestMain(m)
}

func soon(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	tb.Cleanup(cancel)
	return ctx
}

func newSystem() *actor.ActorSystem {
	return actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }),
		actor.WithDeadLetterThrottleInterval(time.Millisecond), // its goroutine lives as long
	)
}

// process is a process of a test: an actor system with its Remote.
type process struct {
	*actor.ActorSystem
	*remote.Remote
	ep *efa.Endpoint
}

// Address is the same by either.
func (p *process) Address() string { return p.Remote.Address() }

// word is a message without a protobuf type.
type word struct {
	Text string
	N    int
}

func codecs() []remote.Codec { return []remote.Codec{remote.JSON(&word{}, word{})} }

// start makes a process on a device of a simulated fabric.
func start(tb testing.TB, f *sim.Fabric, cfg remote.Config) *process {
	d, err := f.OpenDevice(sim.DeviceConfig{})
	require.NoError(tb, err)
	ep, err := efa.OpenEndpoint(soon(tb), efa.Setup{Fabric: efa.Config{Device: d}})
	require.NoError(tb, err)
	system := newSystem()
	cfg.Codecs = append(cfg.Codecs, codecs()...)
	r, err := cfg.Start(system, ep)
	require.NoError(tb, err)
	p := &process{system, r, ep}
	tb.Cleanup(func() {
		_ = r.Close(soon(tb)) // perhaps for the second time
		require.NoError(tb, ep.Close())
		require.NoError(tb, d.Close())
		system.Shutdown()
	})
	return p
}

func two(tb testing.TB) (a, b *process) {
	f, err := sim.New(sim.Config{})
	require.NoError(tb, err)
	return start(tb, f, remote.Config{}), start(tb, f, remote.Config{})
}

// at is the PID of an actor as another process has it.
func (p *process) at(name string) *actor.PID { return actor.NewPID(p.Address(), name) }

func (p *process) spawn(tb testing.TB, name string, f actor.ReceiveFunc) *actor.PID {
	pid, err := p.Root.SpawnNamed(actor.PropsFromFunc(f), name)
	require.NoError(tb, err)
	return pid
}

// echo answers words.
func echo(c actor.Context) {
	if m, ok := c.Message().(*word); ok {
		c.Respond(m)
	}
}

// inbox is the actor "inbox", which gives what it gets to the test.
func (p *process) inbox(tb testing.TB) <-chan any {
	got := make(chan any, 1<<17)
	p.spawn(tb, "inbox", func(c actor.Context) { got <- c.Message() })
	return got
}

// next is the next message of a type.
func next[T any](tb testing.TB, got <-chan any) T {
	ctx := soon(tb)
	for {
		select {
		case m := <-got:
			if m, ok := m.(T); ok {
				return m
			}
		case <-ctx.Done():
			require.FailNow(tb, "nothing came")
		}
	}
}

// events gives the events of a type.
func events[T any](tb testing.TB, p *process) <-chan T {
	got := make(chan T, 1<<12)
	sub := p.EventStream.Subscribe(func(e any) {
		if e, ok := e.(T); ok {
			got <- e
		}
	})
	tb.Cleanup(func() { p.EventStream.Unsubscribe(sub) })
	return got
}

func take[T any](tb testing.TB, from <-chan T) T {
	select {
	case x := <-from:
		return x
	case <-soon(tb).Done():
		require.FailNow(tb, "nothing came")
		panic("unreachable")
	}
}

// devices are those that processes have.
func devices() []string {
	if runtime.GOOS != "linux" {
		return nil
	}
	return []string{"shm", "tcp", "auto"}
}

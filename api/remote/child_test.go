//go:build unix

package remote_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/remote"
	"github.com/efactor/efactor/internal/testenv"
)

// What the environment has the test binary be: a process that listens at an address and has an actor
// "echo", on a device; envWatch has it watch the PID "echo" at that address and end with it.
const (
	envListen = "REMOTE_TEST_LISTEN"
	envDevice = "REMOTE_TEST_DEVICE"
	envWatch  = "REMOTE_TEST_WATCH"
)

// child reports whether this was such a process.
func child() bool {
	at := os.Getenv(envListen)
	if at == "" {
		return false
	}
	if err := serve(at); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func serve(at string) error {
	system := newSystem()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := config(os.Getenv(envDevice)).Listen(ctx, system, at)
	if err != nil {
		return err
	}
	if _, err := system.Root.SpawnNamed(actor.PropsFromFunc(echoBut), "echo"); err != nil {
		return err
	}
	if address := os.Getenv(envWatch); address != "" {
		return watchUntil(ctx, system, actor.NewPID(address, "echo"))
	}
	fmt.Println(r.Address())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent is gone
	return r.Close(ctx)
}

// echoBut answers words but one.
func echoBut(c actor.Context) {
	if m, ok := c.Message().(*word); !ok || m.Text != "no answer" {
		echo(c)
	}
}

// watchUntil watches an actor, says so to it, and ends with it.
func watchUntil(ctx context.Context, system *actor.ActorSystem, echo *actor.PID) error {
	over := make(chan *actor.Terminated, 1)
	system.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
		switch m := c.Message().(type) {
		case *actor.Started:
			c.Watch(echo)
			c.Send(echo, &word{"watching", 0})
		case *actor.Terminated:
			over <- m
		}
	}))
	select {
	case m := <-over:
		if m.Why != actor.TerminatedReason_AddressTerminated {
			return fmt.Errorf("terminated: %v", m.Why)
		}
		return nil
	case <-ctx.Done():
		return errors.New("it was not told")
	}
}

func config(device string) *remote.Config {
	c := remote.Config{Codecs: codecs(), Setup: &efa.Setup{
		Fabric:   efa.Config{DeviceName: device},
		Endpoint: efa.EndpointConfig{Protocol: efa.ProtocolConfig{PeerTimeout: 1500 * time.Millisecond}},
	}}.PingEvery(100 * time.Millisecond)
	return &c
}

// spawnProcess starts another process and returns its address.
func spawnProcess(t *testing.T, at, device string) (string, *exec.Cmd) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envListen+"="+at, envDevice+"="+device)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // it may have been killed
	})
	line := bufio.NewScanner(out)
	require.True(t, line.Scan())
	return line.Text(), cmd
}

// here makes a process of this one.
func here(t *testing.T, device string) *process {
	system := newSystem()
	r, err := config(device).Listen(soon(t), system, "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = r.Close(soon(t))
		system.Shutdown()
	})
	return &process{ActorSystem: system, Remote: r}
}

func onDevices(t *testing.T, f func(t *testing.T, device string)) {
	for _, device := range devices() {
		t.Run(device, func(t *testing.T) { f(t, device) })
	}
}

// TestKilled: when a process is killed, watchers of its actors learn it; when it is started again
// at its address, the PIDs are good again.
func TestKilled(t *testing.T) {
	onDevices(t, func(t *testing.T, device string) {
		p := here(t, device)
		address, cmd := spawnProcess(t, "127.0.0.1:0", device)
		there := actor.NewPID(address, "echo")
		_, err := p.Root.RequestFuture(there, &word{}, long).Result()
		require.NoError(t, err)
		got := make(chan any, 10)
		watcher := p.spawn(t, "watcher", func(c actor.Context) {
			switch m := c.Message().(type) {
			case *actor.PID:
				c.Watch(m)
				c.Respond(m)
			case *actor.Terminated:
				got <- m
			}
		})
		_, err = p.Root.RequestFuture(watcher, there, long).Result()
		require.NoError(t, err)
		lost := events[*remote.Lost](t, p)
		pending := p.Root.RequestFuture(there, &word{"no answer", 0}, -1)
		require.NoError(t, cmd.Process.Kill())
		_, err = pending.Result()
		require.ErrorIs(t, err, actor.ErrDeadLetter)
		require.Equal(t, actor.TerminatedReason_AddressTerminated, next[*actor.Terminated](t, got).Why)
		require.ErrorIs(t, take(t, lost).Err, efa.ErrPeerFailed)

		again, _ := spawnProcess(t, address, device)
		require.Equal(t, address, again)
		require.Eventually(t, func() bool { // dead letters, until it is asked again
			_, err := p.Root.RequestFuture(there, &word{}, long).Result()
			return err == nil
		}, long, time.Millisecond)
	})
}

// TestStopped: a process that was stopped for so long that it was taken for dead learns that, even
// if it only watches.
func TestStopped(t *testing.T) {
	testenv.Long(t, "a peer stands still for real seconds")
	onDevices(t, func(t *testing.T, device string) {
		p := here(t, device)
		watching := make(chan *actor.PID, 1)
		p.spawn(t, "echo", func(c actor.Context) {
			if _, ok := c.Message().(*word); ok {
				watching <- nil
			}
		})
		lost := events[*remote.Lost](t, p)
		connected := events[*remote.Connected](t, p)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envListen+"=127.0.0.1:0", envDevice+"="+device, envWatch+"="+p.Address())
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		take(t, watching)
		there := actor.NewPID(take(t, connected).Address, "echo")
		require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
		for over := false; !over; { // until it takes no more, and for PeerTimeout
			p.Root.Send(there, &word{strings.Repeat("x", 100_000), 0})
			select {
			case m := <-lost:
				require.ErrorIs(t, m.Err, efa.ErrPeerFailed)
				over = true
			default:
			}
		}
		require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
		require.NoError(t, cmd.Wait())
	})
}

// TestAlias: a process that states an address whose first path is another's is no session of that one.
func TestAlias(t *testing.T) {
	if !slices.Contains(devices(), "auto") {
		t.Skip("shm and tcp need Linux")
	}
	p, victim := here(t, "auto"), here(t, "auto")
	p.spawn(t, "echo", echo)
	_, err := victim.Root.RequestFuture(p.at("echo"), &word{}, long).Result()
	require.NoError(t, err)
	lost := events[*remote.Lost](t, victim)
	foe, err := efa.OpenEndpoint(soon(t), efa.Setup{Fabric: efa.Config{DeviceName: "tcp"}})
	require.NoError(t, err)
	defer func() { require.NoError(t, foe.Close()) }()
	theirs, err := efa.ResolveAddress(soon(t), victim.Address())
	require.NoError(t, err)
	shm, _ := theirs.Raw("shm")
	lie := efa.NewAddress("shm", shm).String() + ";" + foe.Address().String()
	to, err := foe.AddressVector().Resolve(soon(t), p.Address())
	require.NoError(t, err)
	s := &stranger{t: t, ep: foe, to: to}
	s.send(hello, strangers, saying(lie, lie))
	require.Eventually(t, func() bool { return p.Stats().Malformed == 1 }, testenv.Hang, time.Millisecond)
	_, err = victim.Root.RequestFuture(p.at("echo"), &word{}, long).Result()
	require.NoError(t, err)
	require.Empty(t, lost)
}

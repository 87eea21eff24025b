//go:build unix

package efa_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/testenv"
)

// pausedMessages is how many it sends when it goes on.
const pausedMessages = 100

func init() { pausedRole = pausedChild }

// pausedChild says that it is there, and sends its messages when it gets SIGUSR1, which is
// after it was stopped. Then it receives until the end message comes.
func pausedChild(dir string) error {
	goOn := make(chan os.Signal, 1)
	signal.Notify(goOn, syscall.SIGUSR1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ep, parent, err := childOf(dir, efa.DomainConfig{})
	if err != nil {
		return err
	}
	if err := ep.Send(ctx, parent, []byte("here")); err != nil {
		return err
	}
	<-goOn
	for i := range pausedMessages {
		how := efa.Complete(efa.Transmitted)
		if i%10 == 9 {
			how = efa.Complete(efa.Delivered)
		}
		err := ep.Send(ctx, parent, pattern(i*300), how)
		for i == 0 && dir == "tcp" && errors.Is(err, efa.ErrPeerFailed) && ctx.Err() == nil {
			// The parent has cut the connection. The first send may be what finds that.
			err = ep.Send(ctx, parent, pattern(i*300), how)
		}
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	for buf := make([]byte, 100); ; {
		m, err := ep.Recv(ctx, buf)
		if err != nil {
			return fmt.Errorf("wait for the end: %w", err)
		}
		if string(buf[:m.N]) == "end" {
			return ep.Shutdown(ctx)
		}
	}
}

// TestPausedProcess: a process is stopped for longer than its peer's PeerTimeout and goes on
// then. Its messages are received, in order. Over tcp its first send may report that the connection was cut.
// The process receives again when its peer has told it which messages it has missed.
func TestPausedProcess(t *testing.T) {
	testenv.Long(t, "a peer stands still for real seconds")
	if runtime.GOOS != "linux" {
		t.Skip("shm and tcp need Linux")
	}
	for _, place := range []string{"shm", "tcp"} {
		t.Run(place, func(t *testing.T) {
			dir, dev := place, efa.Device(nil)
			var err error
			if place == "shm" {
				dir = t.TempDir()
				require.NoError(t, os.Chmod(dir, 0o700))
				dev, err = shm.Open(shm.Config{Dir: dir})
			} else {
				dev, err = efa.OpenDevice("tcp")
			}
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, dev.Close()) })
			ctx := testContext(t)
			ep, err := efa.OpenEndpoint(ctx, efa.Setup{
				Fabric:   efa.Config{Device: dev},
				Endpoint: efa.EndpointConfig{Protocol: efa.ProtocolConfig{PeerTimeout: 1500 * time.Millisecond, RecvQueue: 32}},
			})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, ep.Close()) })
			cmd, addr := startChild(t, dir, ep.Address(), pauseEnv+"=1")
			t.Cleanup(func() { _ = cmd.Process.Kill() }) // if it has not ended
			peer, err := ep.AddressVector().Insert(addr)
			require.NoError(t, err)
			buf := make([]byte, pausedMessages*300)
			_, err = ep.Recv(ctx, buf)
			require.NoError(t, err)

			require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
			for err == nil { // until it takes no more, and for PeerTimeout
				err = ep.Send(ctx, peer, []byte("to the stopped"))
			}
			require.ErrorIs(t, err, efa.ErrPeerFailed)
			_, err = ep.Recv(ctx, buf, efa.From(peer))
			require.ErrorIs(t, err, efa.ErrPeerFailed)
			require.NoError(t, cmd.Process.Signal(syscall.SIGUSR1))
			require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))

			for i := range pausedMessages {
				m, err := ep.Recv(ctx, buf)
				require.NoError(t, err, "message %d", i)
				require.Equal(t, pattern(i*300), buf[:m.N], "message %d", i)
			}
			for err = efa.ErrPeerFailed; errors.Is(err, efa.ErrPeerFailed) && ctx.Err() == nil; {
				err = ep.Send(ctx, peer, []byte("end"))
			}
			require.NoError(t, err)
			require.NoError(t, cmd.Wait())
		})
	}
}

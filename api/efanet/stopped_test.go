//go:build unix

package efanet_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efanet"
	"github.com/efactor/efactor/internal/testenv"
)

// TestStoppedReader: a process that only reads was stopped for longer than the other side's
// PeerTimeout. When it goes on its Read ends.
func TestStoppedReader(t *testing.T) {
	testenv.Long(t, "a peer stands still for real seconds")
	if runtime.GOOS != "linux" {
		t.Skip("shm and tcp need Linux")
	}
	for _, device := range []string{"shm", "tcp"} {
		t.Run(device, func(t *testing.T) {
			l := listen(t, efanet.ListenConfig{Setup: &efa.Setup{
				Fabric:   efa.Config{DeviceName: device},
				Endpoint: efa.EndpointConfig{Protocol: efa.ProtocolConfig{PeerTimeout: 1500 * time.Millisecond}},
			}})
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), envRead+"="+l.Addr().String())
			cmd.Stderr = os.Stderr
			require.NoError(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill() }) // if it has not ended
			c, err := l.Accept()
			require.NoError(t, err)
			_, err = c.Read(make([]byte, 1)) // it is about to read
			require.NoError(t, err)
			require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
			for err == nil { // until it takes no more, and for PeerTimeout
				_, err = c.Write(make([]byte, 1<<20))
			}
			require.ErrorIs(t, err, syscall.ECONNRESET)
			require.NoError(t, c.Close())
			require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
			require.NoError(t, cmd.Wait())
		})
	}
}

// readFrom is the process that is stopped. It ends when its connection does.
func readFrom(addr string) error {
	efanet.AskEvery(100 * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := efanet.Dial(ctx, addr)
	if err != nil {
		return err
	}
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	for p := make([]byte, 1<<20); err == nil; {
		_, err = c.Read(p)
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("Read ended with %w", err)
	}
	return c.Close()
}

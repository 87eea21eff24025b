//go:build linux

package tcp

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// TestTooFewDescriptors: the error says what the limit is and how to raise it, on one line.
func TestTooFewDescriptors(t *testing.T) {
	d := openDevice(t, Config{})
	var was unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	none := was
	none.Cur = lowestFree(t)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	_, err := d.OpenQP(device.QPConfig{})
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
	require.ErrorIs(t, err, unix.EMFILE)
	require.ErrorContains(t, err, fmt.Sprintf("RLIMIT_NOFILE is %d", none.Cur))
	require.ErrorContains(t, err, "ulimit -n")
	require.NotContains(t, err.Error(), "\n")
}

// TestPortInUse: the error names the port and its address, and says what to do, on one line.
func TestPortInUse(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	other := openDevice(t, Config{Addr: n.d.cfg.Addr})
	_, err := other.OpenQP(device.QPConfig{QPN: n.q.QPN()})
	require.ErrorIs(t, err, device.ErrQPNInUse)
	require.ErrorIs(t, err, unix.EADDRINUSE)
	require.ErrorContains(t, err, fmt.Sprintf("port %d of %v", n.q.QPN(), n.d.cfg.Addr))
	require.ErrorContains(t, err, "any that is free")
	require.NotContains(t, err.Error(), "\n")
}

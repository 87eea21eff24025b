//go:build linux

package tcp

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
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

// TestNotesOfPeers: nor does one whose sessions come and go.
func TestNotesOfPeers(t *testing.T) {
	var out bytes.Buffer
	var now clock.Manual
	n := newNode(t, Config{Clock: &now, Logger: slog.New(slog.NewTextHandler(&out, nil))}, device.QPConfig{})
	for i := range 50 {
		f := inside(t, n)
		f.works()
		require.NoError(t, f.c.Close())
		until(t, "loss", func() bool { return n.d.Stats().Broken == uint64(i+1) && len(n.gone) == i+1 }, n)
	}
	require.LessOrEqual(t, strings.Count(out.String(), "\n"), 3*maxLogged)
	require.Contains(t, out.String(), "session lost")
}

// TestComplaints: a host that keeps breaking off connections does not fill the
// disk.
func TestComplaints(t *testing.T) {
	var out bytes.Buffer
	var now clock.Manual
	c := rateLimitedLog{log: slog.New(slog.NewTextHandler(&out, nil)), clock: &now}
	for range 100 {
		c.warn("tcp: impostor", "port", 1)
	}
	require.Equal(t, maxLogged, strings.Count(out.String(), "impostor"))
	now.Advance(time.Second)
	out.Reset()
	c.warn("tcp: accept", "port", 2)
	require.Contains(t, out.String(), `port=2 "more of these or others"=95`)
	out.Reset()
	c.warn("tcp: accept", "port", 3)
	require.NotContains(t, out.String(), "more")
}

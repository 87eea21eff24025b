//go:build linux

package tcp

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

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

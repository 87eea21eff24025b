package tcp

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/clock"
)

// TestComplaints: a host that keeps breaking off connections does not fill the
// disk.
func TestComplaints(t *testing.T) {
	var out bytes.Buffer
	var now clock.Manual
	c := complaints{log: slog.New(slog.NewTextHandler(&out, nil)), clock: &now}
	for range 100 {
		c.warn("tcp: impostor", "port", 1)
	}
	require.Equal(t, mostComplaints, strings.Count(out.String(), "impostor"))
	now.Advance(time.Second)
	out.Reset()
	c.warn("tcp: accept", "port", 2)
	require.Contains(t, out.String(), `port=2 "more of these or others"=95`)
	out.Reset()
	c.warn("tcp: accept", "port", 3)
	require.NotContains(t, out.String(), "more")
}

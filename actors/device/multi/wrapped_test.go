package multi_test

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/multi"
	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/tap"
	"github.com/efactor/efactor/actors/device/tcp"
)

// TestWrapped: a wrapper says of a device what the device says.
func TestWrapped(t *testing.T) {
	sink, err := tap.NewPcapng(io.Discard, nil)
	require.NoError(t, err)
	a, err := shm.Open(shm.Config{Dir: filepath.Join(t.TempDir(), "fabric")})
	require.NoError(t, err)
	b, err := tcp.Open(tcp.Config{})
	require.NoError(t, err)
	d, err := multi.Open(tap.Wrap(a, sink), tap.Wrap(b, sink))
	require.NoError(t, err)
	require.True(t, d.Reaches(a.Info().GID))
	require.True(t, d.Reaches(b.Info().GID))
	require.Len(t, tap.Wrap(d, sink).Devices(), 2)
	require.NoError(t, d.Close())
}

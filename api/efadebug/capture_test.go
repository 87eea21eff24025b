package efadebug_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efadebug"
	"github.com/efactor/efactor/api/efatest"
)

// TestCapture: a message is in the captures of both sides, and in no other.
func TestCapture(t *testing.T) {
	fabric, err := efatest.NewFabric(efatest.FabricConfig{})
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "both.pcapng")
	both, err := efadebug.CreateCapture(name)
	require.NoError(t, err)
	var receiver bytes.Buffer
	one, err := efadebug.NewCapture(&receiver)
	require.NoError(t, err)

	open := func(captures ...*efadebug.Capture) (*efa.Endpoint, *efa.AddressVector) {
		sim, err := fabric.OpenDevice(efatest.DeviceConfig{})
		require.NoError(t, err)
		var dev efa.Device = sim
		for _, c := range captures {
			dev = c.Device(dev)
		}
		return endpointOn(t, dev)
	}
	a, av := open(both)
	b, _ := open(both, one)
	to, err := av.Insert(b.Address())
	require.NoError(t, err)
	word := []byte("a word that is looked for")
	require.NoError(t, a.Send(t.Context(), to, word))
	_, err = b.Recv(t.Context(), make([]byte, 100))
	require.NoError(t, err)
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())

	require.NoError(t, both.Close())
	file, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "\x0a\x0d\x0d\x0a", string(file[:4]), "a section of pcapng")
	// A packet that meets RNR, since the receiver is not ready yet, is sent again.
	require.GreaterOrEqual(t, bytes.Count(file, word), 2, "sent and received")
	require.NoError(t, one.Close())
	require.Equal(t, 1, bytes.Count(receiver.Bytes(), word), "received")
}

var errFull = errors.New("disk full")

// full takes some writes and fails then.
type full int

func (f *full) Write(b []byte) (int, error) {
	if *f--; *f < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestCaptureFails(t *testing.T) {
	_, err := efadebug.CreateCapture(filepath.Join(t.TempDir(), "no", "such", "folder"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = efadebug.NewCapture(new(full))
	require.ErrorIs(t, err, errFull)

	room := full(2) // the headers
	c, err := efadebug.NewCapture(&room)
	require.NoError(t, err)
	fabric, err := efatest.NewFabric(efatest.FabricConfig{})
	require.NoError(t, err)
	dev, err := fabric.OpenDevice(efatest.DeviceConfig{})
	require.NoError(t, err)
	ep, av := endpointOn(t, c.Device(dev))
	self, err := av.Insert(ep.Address())
	require.NoError(t, err)
	require.NoError(t, ep.Send(t.Context(), self, []byte("sent all the same")))
	_, err = ep.Recv(t.Context(), make([]byte, 100))
	require.NoError(t, err)
	require.NoError(t, ep.Close())
	require.ErrorIs(t, c.Close(), errFull)
}

// TestOneWriter: a file that is written is nobody else's.
func TestOneWriter(t *testing.T) {
	name := filepath.Join(t.TempDir(), "capture.pcapng")
	require.NoError(t, os.WriteFile(name, []byte("an old one that is longer than the headers of a new capture, by far: "+strings.Repeat("x", 1000)), 0o600))
	c, err := efadebug.CreateCapture(name)
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		_, err = efadebug.CreateCapture(name)
		require.ErrorContains(t, err, "is written already")
	}
	require.NoError(t, c.Close())
	st, err := os.Stat(name)
	require.NoError(t, err)
	require.Less(t, st.Size(), int64(1000), "truncated")
	c, err = efadebug.CreateCapture(name)
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

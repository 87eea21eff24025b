package efa_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/api/efa"
)

// TestOtherLayout: a process of a release with another layout of segments is not reached, and the
// error names both layouts.
func TestOtherLayout(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	open := func() *efa.Endpoint {
		dev, err := shm.Open(shm.Config{Dir: dir})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, dev.Close()) })
		ep, err := efa.OpenEndpoint(testContext(t), efa.Setup{Fabric: efa.Config{Device: dev}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, ep.Close()) })
		return ep
	}
	here := open()
	before, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	there := open()
	after, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	const at = 32 // of the version in a segment's header
	changed := 0
	for _, name := range after {
		st, err := os.Stat(name)
		require.NoError(t, err)
		if !st.Mode().IsRegular() {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil || len(b) < at+4 || string(b[:8]) != "1efa-shm" || slices.Contains(before, name) {
			continue
		}
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteAt(binary.NativeEndian.AppendUint32(nil, 99), at)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		changed++
	}
	require.Equal(t, 1, changed, "segments of the second endpoint")
	to, err := here.AddressVector().Insert(there.Address())
	require.NoError(t, err)
	err = here.Send(testContext(t), to, []byte("x"), efa.Complete(efa.Delivered))
	require.ErrorContains(t, err, "layout 99 of another release, this one layout 7")
}

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/fakesysfs"
)

// TestList: a host with a card that cannot be opened, and one without.
func TestList(t *testing.T) {
	tree := fakesysfs.New(t)
	var out bytes.Buffer
	err := list(&out, efa.Hints{Driver: "efa", Sysfs: tree.Dir}, false)
	require.ErrorIs(t, err, efa.ErrNoData)
	require.Empty(t, out.String())

	tree.Card(77, "rdmap0s6")
	require.NoError(t, list(&out, efa.Hints{Sysfs: tree.Dir}, false))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 3)
	require.Contains(t, lines[0], "shm:")
	require.Contains(t, lines[1], "tcp:")
	require.Regexp(t, `^efa:rdmap0s6, PCI 0000:00:53.0 \(1d0f:efa1\), 100 Gb/s: not usable: .*docker run --device`, lines[2])

	out.Reset()
	require.NoError(t, list(&out, efa.Hints{Sysfs: tree.Dir, Name: "rdmap0s6"}, true))
	require.Contains(t, out.String(), "    gid            fe80:0:0:0:0:0:0:124d\n    file           /dev/infiniband/uverbs77\n")
	out.Reset()
	require.NoError(t, list(&out, efa.Hints{Driver: "sim"}, true))
	require.Contains(t, out.String(), "endpoints      256")
}

//go:build linux

package efa

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/sysfs"
	"github.com/efactor/efactor/internal/fakesysfs"
)

// TestDiscoveryQuery: with a driver a card that can be opened has limits and comes first;
// what the driver meets is explained.
func TestDiscoveryQuery(t *testing.T) {
	tree := fakesysfs.New(t)
	for i, name := range []string{"a", "b", "c"} {
		_, verbs, _ := tree.Card(i, name)
		tree.File(verbs+"/dev", "1:3") // of /dev/null, which stands for the device's file
	}
	dev := t.TempDir()
	for _, v := range []string{"uverbs0", "uverbs1", "uverbs2"} {
		require.NoError(t, os.Symlink("/dev/null", filepath.Join(dev, v)))
	}
	d := discovery{
		host: sysfs.Host{Root: tree.Dir, Dev: dev},
		query: func(n *NIC) (device.Info, error) {
			if n.Name == "a" {
				return device.Info{}, unix.ENOMEM
			}
			n.Firmware = "1.2"
			return device.Info{Name: "x", GID: n.GIDs[0], MTU: 8928, MaxQP: 256, RDMARead: true, MaxRDMA: 1 << 30}, nil
		},
		hints: Hints{Driver: "efa"},
	}
	list, err := d.run()
	require.NoError(t, err)
	require.Len(t, list, 3)
	if d.host.Memlock(endpointMemory) != nil { // reported of every card then
		for i := range list {
			require.ErrorIs(t, list[i].Err, sysfs.ErrMemlock)
		}
		return
	}
	for i, name := range []string{"efa:b", "efa:c", "efa:a"} {
		require.Equal(t, name, list[i].Name)
	}
	require.NoError(t, list[0].Err)
	require.Equal(t, Limits{
		Device: "efa:b", MTU: 8928, RDMARead: true, MaxRDMA: 1 << 30, MaxEndpoints: 256, MaxInject: 4096, MaxMedium: 65536,
	}, Limits{
		Device: list[0].Limits.Device, MTU: list[0].Limits.MTU, RDMARead: list[0].Limits.RDMARead, MaxRDMA: list[0].Limits.MaxRDMA,
		MaxEndpoints: list[0].Limits.MaxEndpoints, MaxInject: list[0].Limits.MaxInject, MaxMedium: list[0].Limits.MaxMedium,
	})
	require.Equal(t, "1.2", list[0].NIC.Firmware)
	require.ErrorIs(t, list[2].Err, sysfs.ErrMemlock)
	require.Contains(t, list[0].String(), "efa:b, PCI 0000:00:07.0 (1d0f:efa1), 100 Gb/s, MTU 8928")
}

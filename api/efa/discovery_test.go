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
	"github.com/efactor/efactor/actors/settings"
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
	var asked []uint64
	d := discovery{
		host: sysfs.Host{Root: tree.Dir, Dev: dev},
		query: func(n *NIC) (device.Info, error) {
			if n.Name == "a" {
				return device.Info{}, unix.ENOMEM
			}
			n.Firmware = "1.2"
			return device.Info{Name: "x", GID: n.GIDs[0], MTU: 8928, MaxQP: 256, RDMARead: true, MaxRDMA: 1 << 30}, nil
		},
		hints:   Hints{Driver: "efa"},
		memory:  endpointMemory,
		memlock: func(need uint64) error { asked = append(asked, need); return nil },
	}
	list, err := d.run()
	require.NoError(t, err)
	require.Len(t, list, 3)
	require.Equal(t, []uint64{endpointMemory, endpointMemory, endpointMemory}, asked)
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
	require.ErrorIs(t, list[2].Err, sysfs.ErrNoRoom)
	require.Contains(t, list[0].String(), "efa:b, PCI 0000:00:07.0 (1d0f:efa1), 100 Gb/s, MTU 8928")
}

// TestStockMemlock: where as much may be locked as kernels allow by themselves, a card is
// opened by its name, and not by auto, whose regions would fail. The default queues and the
// block for reads into plain memory are what is asked for by name.
func TestStockMemlock(t *testing.T) {
	const stock = 8 << 20
	tree := fakesysfs.New(t)
	_, verbs, _ := tree.Card(0, "a")
	tree.File(verbs+"/dev", "1:3")
	dev := t.TempDir()
	require.NoError(t, os.Symlink("/dev/null", filepath.Join(dev, "uverbs0")))
	memlock := func(need uint64) error {
		if need > stock {
			return sysfs.ErrMemlock
		}
		return nil
	}
	d := discovery{host: sysfs.Host{Root: tree.Dir, Dev: dev}, memory: endpointMemory, memlock: memlock}
	d.query = func(*NIC) (device.Info, error) { return device.Info{}, nil }
	d.nics()
	require.NoError(t, d.list[0].Err)

	of := settings.New(settings.Settings{}, &device.Info{}).On(&device.Info{})
	const stride = 8960 // of the MTU 8928
	require.GreaterOrEqual(t, endpointMemory, (of.SendQueue+of.RecvQueue)*stride+1<<20)

	require.Error(t, memlock(autoMemory))
	d = discovery{host: d.host, memory: autoMemory, memlock: memlock}
	d.nics()
	require.ErrorIs(t, d.list[0].Err, sysfs.ErrMemlock)
}

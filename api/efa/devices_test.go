//go:build linux

package efa_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/sysfs"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/fakesysfs"
)

func driversOf(list []efa.DeviceInfo) string {
	var s []string
	for _, d := range list {
		s = append(s, d.Driver)
	}
	return strings.Join(s, " ")
}

// TestDevices: without hints all devices are listed, the best of those that can be used
// first; the others say in one line why they cannot be, and what to do.
func TestDevices(t *testing.T) {
	tree := fakesysfs.New(t)
	list, err := efa.Devices(efa.Hints{Sysfs: tree.Dir})
	require.NoError(t, err)
	require.Equal(t, "shm tcp", driversOf(list))
	for _, d := range list {
		require.NoError(t, d.Err, d.Name)
		require.Nil(t, d.NIC)
		require.Len(t, d.GIDs, 1)
		require.False(t, d.Remote, "without credentials tcp stays on this host")
		require.Contains(t, d.String(), ", MTU ")
	}

	tree.Card(77, "rdmap1")
	ib, _, pci := tree.Card(78, "rdmap2")
	tree.File(ib+"/ports/1/rate", "200 Gb/sec (4X HDR)")
	tree.File(pci+"/numa_node", "1")
	_, verbs, _ := tree.Card(79, "rdmap3")
	tree.File(verbs+"/abi_version", "0")
	list, err = efa.Devices(efa.Hints{Sysfs: tree.Dir})
	require.NoError(t, err)
	require.Equal(t, "shm tcp efa efa efa", driversOf(list))
	fast := list[2]
	require.Equal(t, "efa:rdmap2", fast.Name, "the faster one is first")
	require.Equal(t, efa.NIC{
		Name: "rdmap2", Uverbs: "/dev/infiniband/uverbs78", Major: 231, Minor: 192 + 78, GIDs: fast.GIDs, Active: true,
		PCI: "0000:00:54.0", VendorID: 0x1d0f, DeviceID: 0xefa1, NUMANode: 1, LinkSpeed: 200e9,
	}, *fast.NIC)
	require.Equal(t, "efa:rdmap2, PCI 0000:00:54.0 (1d0f:efa1), NUMA node 1, 200 Gb/s: not usable: /dev/infiniband/uverbs78: "+
		"the file is missing: in a container pass it in (docker run --device /dev/infiniband/uverbs78, "+
		"on Kubernetes a resource vpc.amazonaws.com/efa), else have udev make it (udevadm trigger)", fast.String())
	require.ErrorContains(t, list[4].Err, "ABI version")
	require.Nil(t, list[4].NIC)
	t.Setenv("SYSFS_PATH", tree.Dir)
	for name, why := range map[string]string{
		fast.Name: "the file is missing", "efa": "the file is missing", "efa:rdmap3": "ABI version",
		"efa:eth0": `there is no EFA device "eth0" on this host; the first is "rdmap2"`,
	} {
		_, err = efa.OpenDevice(name)
		require.ErrorContains(t, err, why, name)
	}
	t.Setenv("SYSFS_PATH", t.TempDir())
	_, err = efa.OpenDevice("efa")
	require.ErrorContains(t, err, "this host has no EFA device")
	require.ErrorIs(t, err, efa.ErrNoData)
	_, err = efa.Open(efa.Config{DeviceName: "efa"})
	require.ErrorIs(t, err, efa.ErrNoData)
}

// TestDevicesHints: what each hint leaves out, and the error if that is all.
func TestDevicesHints(t *testing.T) {
	tree := fakesysfs.New(t)
	tree.Card(77, "rdmap1")
	for name, c := range map[string]struct {
		hints efa.Hints
		want  string // drivers
		err   string
	}{
		"efa":           {efa.Hints{Driver: "efa"}, "efa", ""},
		"shm":           {efa.Hints{Driver: "shm"}, "shm", ""},
		"sim":           {efa.Hints{Driver: "sim"}, "sim", ""},
		"usable":        {efa.Hints{Usable: true}, "shm tcp", ""},
		"usable efa":    {efa.Hints{Usable: true, Driver: "efa"}, "", "efa:rdmap1 is not usable: /dev/infiniband/uverbs77: the file is missing"},
		"no driver":     {efa.Hints{Driver: "verbs"}, "", `driver "verbs": want efa, shm, tcp or sim`},
		"name":          {efa.Hints{Name: "efa:rdmap1"}, "efa", ""},
		"name of a NIC": {efa.Hints{Name: "rdmap1"}, "efa", ""},
		"no such name":  {efa.Hints{Name: "rdmap2", Driver: "efa"}, "", `efa:rdmap1 is not "rdmap2"`},
		"local":         {efa.Hints{Local: true}, "shm tcp", ""},
		"remote":        {efa.Hints{Remote: true}, "efa", ""},
		"remote tcp": {
			efa.Hints{Remote: true, TCP: efa.TCPConfig{Secret: make([]byte, 16), Addr: netip.MustParseAddr("192.0.2.7")}}, "tcp efa", "",
		},
		"RDMA": {efa.Hints{RDMARead: true, RDMAWrite: true}, "shm tcp", ""},
		"no limits": {
			efa.Hints{Driver: "efa", RDMARead: true}, "", "efa:rdmap1 is not usable: /dev/infiniband/uverbs77: the file is missing",
		},
		"no MTU":    {efa.Hints{Driver: "efa", MinMTU: 1}, "", "efa:rdmap1 is not usable: "},
		"no RDMA":   {efa.Hints{RDMARead: true, Driver: "sim"}, "", "sim has no RDMA read"},
		"no write":  {efa.Hints{RDMAWrite: true, Driver: "sim"}, "", "sim has no RDMA write"},
		"MTU":       {efa.Hints{MinMTU: 8760}, "shm tcp", ""},
		"great MTU": {efa.Hints{MinMTU: 1 << 20, Driver: "shm"}, "", "has packets of 8760 bytes, 1048576 are wanted"},
		"both":      {efa.Hints{Local: true, Remote: true, Driver: "shm"}, "", "does not leave this host"},
		"bad tcp":   {efa.Hints{Driver: "tcp", TCP: efa.TCPConfig{Secret: []byte("short")}, Usable: true}, "", "tcp is not usable: "},
	} {
		t.Run(name, func(t *testing.T) {
			c.hints.Sysfs = tree.Dir
			list, err := efa.Devices(c.hints)
			if c.err == "" {
				require.NoError(t, err)
				require.Equal(t, c.want, driversOf(list))
				return
			}
			require.ErrorContains(t, err, c.err)
			require.NotContains(t, err.Error(), "\n")
			require.True(t, errors.Is(err, efa.ErrNoData) || errors.Is(err, efa.ErrInvalid))
		})
	}
	_, err := efa.Devices(efa.Hints{Driver: "efa", Sysfs: fakesysfs.New(t).Dir})
	require.ErrorIs(t, err, efa.ErrNoData)
	require.ErrorIs(t, err, sysfs.ErrNoDevice)
	require.ErrorContains(t, err, "this host has no EFA device: start an instance")
}

// TestDeviceInfoClone: a copy is changed, the original is not, and neither is the next list.
func TestDeviceInfoClone(t *testing.T) {
	tree := fakesysfs.New(t)
	tree.Card(77, "rdmap1")
	get := func() efa.DeviceInfo {
		list, err := efa.Devices(efa.Hints{Driver: "efa", Sysfs: tree.Dir})
		require.NoError(t, err)
		return list[0]
	}
	a := get()
	b := a.Clone()
	require.Equal(t, a, b)
	b.GIDs[0][0], b.NIC.GIDs[0][0], b.NIC.Name, b.Limits.MTU, b.Name = 1, 2, "x", 3, "y"
	require.Equal(t, get(), a)
	require.Equal(t, byte(0xfe), a.GIDs[0][0])
	require.Equal(t, "rdmap1", a.NIC.Name)
}

// TestDeviceLimits: what Devices says of a device before it is opened is what its domains
// grant, and each limit holds: it is reached, and one more is refused.
func TestDeviceLimits(t *testing.T) {
	for _, driver := range []string{"shm", "tcp", "sim"} {
		t.Run(driver, func(t *testing.T) {
			list, err := efa.Devices(efa.Hints{Driver: driver, Sysfs: t.TempDir()})
			require.NoError(t, err)
			name, l := list[0].Name, list[0].Limits
			dom := namedDomain(t, name)
			require.Equal(t, l, dom.Limits())

			a, b := newEndpoint(t, dom, efa.EndpointConfig{TxDepth: 16, RxDepth: 16}), newEndpoint(t, dom, efa.EndpointConfig{})
			introduce(t, a, b)
			ctx := testContext(t)
			msg := make([]byte, l.MaxInject+1)
			require.NoError(t, a.ep.Send(ctx, a.peer, msg[:l.MaxInject], efa.Inject))
			require.ErrorIs(t, a.ep.Send(ctx, a.peer, msg, efa.Inject), efa.ErrMsgSize)
			got, err := b.ep.Recv(ctx, make([]byte, l.MaxInject))
			require.NoError(t, err)
			require.Equal(t, l.MaxInject, got.N)

			for what, c := range map[string]func(n int) efa.EndpointConfig{
				"MaxSQ": func(n int) efa.EndpointConfig {
					return efa.EndpointConfig{Protocol: efa.ProtocolConfig{SendQueue: l.MaxSQ + n}}
				},
				"MaxRQ": func(n int) efa.EndpointConfig {
					return efa.EndpointConfig{Protocol: efa.ProtocolConfig{RecvQueue: l.MaxRQ + n}}
				},
				"MaxOps": func(n int) efa.EndpointConfig { return efa.EndpointConfig{TxDepth: l.MaxOps + n} },
			} {
				ep, err := dom.NewEndpoint(c(0))
				require.NoError(t, err, what)
				require.NoError(t, ep.Close())
				_, err = dom.NewEndpoint(c(1))
				require.ErrorIs(t, err, efa.ErrInvalid, what)
			}
			q, err := dom.NewQueue(l.MaxQueue)
			require.NoError(t, err)
			require.NoError(t, q.Close())
			_, err = dom.NewQueue(l.MaxQueue + 1)
			require.ErrorIs(t, err, efa.ErrInvalid)
		})
	}
}

// TestMaxEndpoints: as many endpoints as Limits.MaxEndpoints can be enabled, and no more.
func TestMaxEndpoints(t *testing.T) {
	dom := namedDomain(t, "sim")
	most := dom.Limits().MaxEndpoints
	enable := func() error {
		ep, err := dom.NewEndpoint(efa.EndpointConfig{Protocol: efa.ProtocolConfig{SendQueue: 1, RecvQueue: 1}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, ep.Close()) })
		return ep.Enable(context.Background())
	}
	for range most {
		require.NoError(t, enable())
	}
	require.ErrorIs(t, enable(), efa.ErrNoMemory)
}

func namedDomain(t *testing.T, device string) *efa.Domain {
	t.Helper()
	fab, err := efa.Open(efa.Config{DeviceName: device})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fab.Close()) })
	dom, err := fab.OpenDomain(efa.DomainConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dom.Close()) })
	return dom
}

// TestDeviceMTU: the MTU that a device's info has is the largest packet that it takes.
func TestDeviceMTU(t *testing.T) {
	for _, driver := range []string{"shm", "tcp", "sim"} {
		t.Run(driver, func(t *testing.T) {
			list, err := efa.Devices(efa.Hints{Driver: driver, Sysfs: t.TempDir()})
			require.NoError(t, err)
			dev, err := efa.OpenDevice(list[0].Name)
			require.NoError(t, err)
			defer func() { require.NoError(t, dev.Close()) }()
			q, err := dev.OpenQP(device.QPConfig{QKey: 1})
			require.NoError(t, err)
			defer func() { require.NoError(t, q.Close()) }()
			ah, err := q.CreateAH(dev.Info().GID)
			require.NoError(t, err)
			wr := device.SendWR{AH: ah, QPN: q.QPN(), QKey: 1, Payload: make([]byte, list[0].Limits.MTU+1)}
			require.ErrorIs(t, q.PostSend(&wr), device.ErrTooLong)
			wr.Payload = wr.Payload[1:]
			require.NoError(t, q.PostSend(&wr))
		})
	}
}

// TestDevicesOfThisHost: whatever this host has, the call works, with SYSFS_PATH or not.
func TestDevicesOfThisHost(t *testing.T) {
	for _, path := range []string{"", t.TempDir()} {
		t.Setenv("SYSFS_PATH", path)
		list, err := efa.Devices(efa.Hints{})
		require.NoError(t, err)
		require.Contains(t, driversOf(list), "shm")
	}
	require.NoError(t, os.Unsetenv("SYSFS_PATH"))
}

package efa

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/internal/fakesysfs"
)

// closing is a device that counts how often it is closed.
type closing struct {
	*sim.Device
	closed *int
}

func (d closing) Close() error { *d.closed++; return d.Device.Close() }

// TestAuto: what auto opens, why, and what it logs for an operator, with everything
// that may be missing.
func TestAuto(t *testing.T) {
	refused := errors.New("permission denied")
	for name, c := range map[string]struct {
		cards    bool // the host has an EFA device, and one of another vendor
		shm, tcp error
		mtu      int // of the tcp device, if another
		card     int // the number of an open EFA device's GID, if there is one
		err      error
		device   string
		choices  []string
		warnings int
	}{
		"all": {
			device: "multi(shm0, tcp0)",
			choices: []string{
				"efa: not used: there is no EFA device in SYS", "shm0: for peers of this user on this host",
				"tcp0: for all other peers, on this host alone: without credentials and without an address there are no others",
			},
		},
		"efa": {
			cards: true, warnings: 1,
			device: "multi(shm0, tcp0)",
			choices: []string{
				"efa:rdma1: not used: /dev/infiniband/uverbs77: the file is missing: in a container pass it in " +
					"(docker run --device /dev/infiniband/uverbs77, on Kubernetes a resource vpc.amazonaws.com/efa), " +
					"else have udev make it (udevadm trigger)",
				"shm0: for peers of this user on this host",
				"tcp0: for all other peers, on this host alone: without credentials and without an address there are no others",
			},
		},
		"no shm": {
			shm: refused, warnings: 1, device: "tcp0",
			choices: []string{
				"efa: not used: there is no EFA device in SYS", "shm: not used: permission denied",
				"tcp0: for all other peers, on this host alone: without credentials and without an address there are no others",
			},
		},
		"card": {
			card: 99, device: "multi(shm0, efa:rdma9, tcp0)",
			choices: []string{
				"efa: not used: there is no EFA device in SYS", "shm0: for peers of this user on this host",
				"efa:rdma9: for peers that have EFA",
				"tcp0: for all other peers, on this host alone: without credentials and without an address there are no others",
			},
		},
		"emulated card on the same fabric": {
			card: 8, device: "multi(shm0, tcp0)",
			choices: []string{
				"efa: not used: there is no EFA device in SYS", "shm0: for peers of this user on this host",
				"efa:rdma9: not used: it has one GID with shm0",
				"tcp0: for all other peers, on this host alone: without credentials and without an address there are no others",
			},
		},
		"no tcp":  {tcp: refused, err: refused},
		"nothing": {shm: refused, tcp: refused, err: refused, warnings: 1},
		"another MTU": {
			mtu: 4096, device: "multi(shm0, tcp0)",
			choices: []string{
				"efa: not used: there is no EFA device in SYS", "shm0: for peers of this user on this host",
				"tcp0: for all other peers, on this host alone: without credentials and without an address there are no others",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree := fakesysfs.New(t)
			dir := tree.Dir
			if c.cards {
				_, _, pci := tree.Card(76, "rdma0")
				tree.File(pci+"/vendor", "0x15b3")
				tree.Remove(pci + "/driver")
				tree.Card(77, "rdma1")
			}
			var out bytes.Buffer
			open, shut := 0, 0
			mk := func(name string, mtu int, err error) func() (Device, error) {
				return func() (Device, error) {
					if err != nil {
						return nil, err
					}
					f, err := sim.New(sim.Config{MTU: mtu})
					require.NoError(t, err)
					d, err := f.OpenDevice(sim.DeviceConfig{Name: name, GID: sim.IndexGID(uint64(7 + open))})
					require.NoError(t, err)
					open++
					return closing{d, &shut}, nil
				}
			}
			ch := newChooser(&Config{}, slog.New(slog.NewTextHandler(&out, nil)))
			if c.card != 0 {
				f, err := sim.New(sim.Config{MTU: 8928})
				require.NoError(t, err)
				d, err := f.OpenDevice(sim.DeviceConfig{Name: "efa:rdma9", LocalKeys: true, GID: sim.IndexGID(uint64(c.card))})
				require.NoError(t, err)
				ch.nic = closing{d, &shut}
				open++
			}
			ch.sys, ch.shm, ch.tcp = dir, mk("shm0", 0, c.shm), mk("tcp0", c.mtu, c.tcp)
			dev, choices, err := ch.open()
			require.Equal(t, c.warnings, strings.Count(out.String(), "level=WARN"), out.String())
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				require.Equal(t, open, shut)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.device, dev.Info().Name)
			var got []string
			for _, x := range choices {
				got = append(got, strings.ReplaceAll(x.String(), dir, "SYS"))
			}
			require.Equal(t, c.choices, got)
			require.Equal(t, len(choices), strings.Count(out.String(), "level=INFO"), out.String())
			require.NoError(t, dev.Close())
			require.Equal(t, open, shut)
		})
	}
	host := netip.MustParseAddr("192.0.2.7")
	for _, c := range []struct {
		cfg     TCPConfig
		private bool
	}{
		{TCPConfig{}, true},
		{TCPConfig{Addr: netip.MustParseAddr("127.0.0.2")}, true},
		{TCPConfig{Addr: host}, false},
		{TCPConfig{Secret: make([]byte, 16)}, false},
		{TCPConfig{Insecure: true}, false},
	} {
		require.Equal(t, c.private, newChooser(&Config{TCP: c.cfg}, nil).private, c.cfg)
	}
}

// TestReachAlone: a device that is alone is not asked whom it reaches.
func TestReachAlone(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	d, err := f.OpenDevice(sim.DeviceConfig{})
	require.NoError(t, err)
	fab, err := Open(Config{Device: d})
	require.NoError(t, err)
	require.Equal(t, []DeviceChoice{{"sim1", true, "it was given"}}, fab.Devices())
	a, err := ParseAddress("sim://[fe80::77]:1:1")
	require.NoError(t, err)
	require.False(t, d.Reaches(a.paths[0].raw.GID()))
	_, _, err = fab.choose(a, new(AddressVectorConfig))
	require.NoError(t, err)
	require.NoError(t, fab.Close())
}

//go:build linux

package efa_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/shm"
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

// page is a log that several goroutines write.
type page struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *page) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

// TestAutoDevice: auto is shared memory and sockets; it says so, and which of them a
// peer has got.
func TestAutoDevice(t *testing.T) {
	var log page
	fab, err := efa.Open(efa.Config{
		DeviceName: "auto",
		TCP:        efa.TCPConfig{Secret: []byte("of the job, and not this one"), Addr: netip.MustParseAddr("127.0.0.1")},
		Logger:     slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fab.Close()) })
	require.Regexp(t, `^multi\(shm:\S+, tcp:127\.0\.0\.1\)$`, fab.Name())
	var used []string
	for _, c := range fab.Devices() {
		if c.Used {
			used = append(used, c.Name)
		}
		require.Contains(t, log.String(), c.Name)
	}
	require.Len(t, used, 2)
	dom, err := fab.OpenDomain(efa.DomainConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dom.Close()) })
	a, b := newEndpoint(t, dom, efa.EndpointConfig{}), newEndpoint(t, dom, efa.EndpointConfig{})
	require.Regexp(t, `^shm://\S+;tcp://\[::ffff:127\.0\.0\.1\]:\d+:\d+$`, a.ep.Address().String())
	introduce(t, a, b)
	require.Contains(t, log.String(), `msg="efa: device for a peer"`)
	paths := strings.Split(b.ep.Address().String(), ";")
	tcpAlone, err := efa.ParseAddress(paths[1])
	require.NoError(t, err)
	name, err := a.av.Device(a.peer)
	require.NoError(t, err)
	require.Equal(t, used[0], name)
	op := start(t, a, &efa.SendReq{To: a.peer, Buf: []byte("x")})
	_, err = b.ep.Recv(testContext(t), make([]byte, 1))
	require.NoError(t, err)
	done(t, op)

	c := newEndpoint(t, dom, efa.EndpointConfig{})
	c.peer, err = c.av.Insert(tcpAlone)
	require.NoError(t, err)
	name, err = c.av.Device(c.peer)
	require.NoError(t, err)
	require.Equal(t, used[1], name)
	op = start(t, c, &efa.SendReq{To: c.peer, Buf: []byte("x")})
	_, err = b.ep.Recv(testContext(t), make([]byte, 1))
	require.NoError(t, err)
	done(t, op)
}

// TestTCPNames: what may be said of sockets, and what not.
func TestTCPNames(t *testing.T) {
	for _, c := range []struct {
		cfg  efa.Config
		want string
		err  string
	}{
		{cfg: efa.Config{DeviceName: "tcp"}, want: "tcp:127.0.0.1"},
		{cfg: efa.Config{DeviceName: "tcp:127.0.0.3"}, want: "tcp:127.0.0.3"},
		{cfg: efa.Config{DeviceName: "tcp", TCP: efa.TCPConfig{Addr: netip.MustParseAddr("127.0.0.4")}}, want: "tcp:127.0.0.4"},
		{cfg: efa.Config{DeviceName: "tcp:127.0.0.5", TCP: efa.TCPConfig{Addr: netip.MustParseAddr("127.0.0.4")}}, want: "tcp:127.0.0.5"},
		{cfg: efa.Config{DeviceName: "tcp:192.0.2.1"}, err: "Insecure"},
		{cfg: efa.Config{DeviceName: "auto:192.0.2.1"}, err: "Insecure"},
		{cfg: efa.Config{DeviceName: "tcp:0.0.0.0"}, err: "0.0.0.0"},
		{cfg: efa.Config{DeviceName: "tcp:::1?host=x"}, err: "for shm"},
		{cfg: efa.Config{DeviceName: "tcp:"}, err: "device"},
		{cfg: efa.Config{DeviceName: "tcp", TCP: efa.TCPConfig{Timeout: -1}}, err: "timeout"},
		{cfg: efa.Config{DeviceName: "tcp", TCP: efa.TCPConfig{Secret: make([]byte, 16), TLS: new(tls.Config)}}, err: "both TLS and Secret"},
		{cfg: efa.Config{DeviceName: "tcp:localhost"}, err: "localhost"},
		{cfg: efa.Config{DeviceName: "tcp", TCP: efa.TCPConfig{Secret: []byte("short")}}, err: "secret"},
		{cfg: efa.Config{DeviceName: "auto", TCP: efa.TCPConfig{Secret: []byte("short")}}, err: "secret"},
	} {
		fab, err := efa.Open(c.cfg)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, fab.Name())
		require.NoError(t, fab.Close())
	}
}

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// foreigner is a device whose Alloc gives memory that it reaches as another process's
// only; here it happens to be our own.
type foreigner struct{ efa.Device }

type foreignRegion struct {
	device.MR
	mem []byte
}

func (r foreignRegion) Bytes() []byte { return r.mem }

func (d foreigner) Alloc(n int, a device.Access) (device.MR, error) {
	mem := make([]byte, n)
	mr, err := d.Device.RegisterForeign(os.Getpid(), addressOf(mem), n, a)
	return foreignRegion{mr, mem}, err
}

// openHosts opens two endpoints on the device of shm, on hosts of their own.
func openHosts(t *testing.T, mode efa.Progress, wrap func(efa.Device) efa.Device) (a, b *side, devB efa.Device) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "fabric")
	var sides []*side
	for i, host := range []string{"a", "b"} {
		d, err := shm.Open(shm.Config{Dir: dir, GID: shm.HostGID(host)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		devB = d
		if i > 0 && wrap != nil {
			d = wrap(d)
		}
		dom := domainOn(t, d, efa.DomainConfig{Progress: mode})
		q := newQueue(t, dom, 0)
		sides = append(sides, newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q}))
	}
	introduce(t, sides[0], sides[1])
	return sides[0], sides[1], devB
}

// TestForeignMemory: a peer's memory may be another process's. Its device has no bytes
// of it, and nobody here asks for them: messages are read from it, writes and reads go
// straight to it.
func TestForeignMemory(t *testing.T) {
	for _, mode := range some(t, modes) {
		t.Run(mode.String(), func(t *testing.T) {
			const size = 3 << 20
			ctx := testContext(t)
			a, b, _ := openHosts(t, mode, func(d efa.Device) efa.Device { return foreigner{d} })
			marker(t, a, b)
			marker(t, b, a)
			src, dst := alloc(t, b, size, remote|efa.AccessSend), alloc(t, a, size, 0)
			for _, to := range [][]byte{dst.Bytes(), make([]byte, size)} {
				clear(to)
				r := start(t, a, &efa.RecvReq{Buf: to})
				s := start(t, b, &efa.SendReq{To: b.peer, Buf: src.Bytes()})
				require.Equal(t, size, done(t, r).N)
				require.True(t, bytes.Equal(pattern(size), to))
				require.Equal(t, "long-read", done(t, s).Protocol.String())
			}
			clear(src.Bytes())
			w := start(t, a, &efa.WriteReq{To: a.peer, At: src.Remote().Slice(11, size-20), Buf: pattern(size)[:size-20], Level: efa.Delivered})
			require.Equal(t, "direct write", done(t, w).Protocol.String())
			require.True(t, bytes.Equal(pattern(size)[:size-20], src.Bytes()[11:size-9]))
			require.NoError(t, a.ep.Memory(a.peer, src.Remote().Slice(11, size-20)).Read(ctx, dst.Bytes()[:size-20]))
			require.True(t, bytes.Equal(pattern(size)[:size-20], dst.Bytes()[:size-20]))
		})
	}
}

// TestForeignRegion: the region need not be known to the endpoint at all, as that of an
// emulated device is not. When it is closed, requests are refused.
func TestForeignRegion(t *testing.T) {
	const size = 300_000
	ctx := testContext(t)
	a, _, devB := openHosts(t, efa.ProgressAuto, nil)
	mem := pattern(size)
	mr, err := devB.RegisterForeign(os.Getpid(), addressOf(mem), size, device.RemoteRead|device.RemoteWrite)
	require.NoError(t, err)
	require.Nil(t, mr.Bytes())
	at := efa.RawRemote(mr.Addr(), size, mr.RKey())
	got := make([]byte, size)
	require.NoError(t, a.ep.Memory(a.peer, at).Read(ctx, got))
	require.True(t, bytes.Equal(pattern(size), got))
	clear(got)
	require.NoError(t, a.ep.Memory(a.peer, at.Slice(5, 100_000)).Write(ctx, got[:100_000], efa.Complete(efa.Delivered)))
	require.Equal(t, pattern(size)[:5], mem[:5])
	require.Equal(t, make([]byte, 100_000), mem[5:100_005])
	require.True(t, bytes.Equal(pattern(size)[100_005:], mem[100_005:]))
	require.NoError(t, mr.Close())
	err = a.ep.Memory(a.peer, at).Read(ctx, got)
	require.Error(t, err)
	require.NotErrorIs(t, err, efa.ErrPeerFailed)
}

// TestHosts: a device may be opened as if it were on a host of that name.
func TestHosts(t *testing.T) {
	name := "shm:" + filepath.Join(t.TempDir(), "fabric")
	gids := map[string][16]byte{}
	var sides []*side
	for _, host := range []string{"", "?host=one", "?host=two", "?host=one"} {
		dev, err := efa.OpenDevice(name + host)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, dev.Close()) })
		gid := dev.Info().GID
		if old, ok := gids[host]; ok {
			require.EqualValues(t, old, gid)
		}
		gids[host] = gid
		sides = append(sides, open(t, dev, efa.DomainConfig{}))
	}
	require.NotEqual(t, gids["?host=one"], gids["?host=two"])
	require.NotEqual(t, gids["?host=one"], gids[""])
	for i, a := range sides {
		for j, b := range sides {
			if i == j {
				continue
			}
			introduce(t, a, b)
			op := start(t, a, &efa.SendReq{To: a.peer, Buf: []byte{byte(i), byte(j)}})
			buf := make([]byte, 2)
			m, err := b.ep.Recv(testContext(t), buf)
			require.NoError(t, err)
			require.Equal(t, b.peer, m.From, "from %d to %d", i, j)
			require.Equal(t, []byte{byte(i), byte(j)}, buf)
			done(t, op)
		}
	}
	for _, bad := range []string{name + "?host=", "sim?host=x", "sim?files", "tcp?files", "shm?host", "shm?", "shm?files=", name + "?plain", name + "??files", "efa?files", "tcp:here", "auto:", "?host="} {
		_, err := efa.OpenDevice(bad)
		require.ErrorIs(t, err, efa.ErrInvalid, bad)
	}
}

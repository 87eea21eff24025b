//go:build linux

package tcp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

func TestConfig(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		want error
	}{
		"nothing":              {Config{}, nil},
		"loopback":             {Config{Addr: netip.MustParseAddr("127.8.9.10")}, nil},
		"mapped":               {Config{Addr: netip.MustParseAddr("::ffff:127.8.9.10")}, nil},
		"loopback, version 6":  {Config{Addr: netip.MustParseAddr("::1")}, nil},
		"other host":           {Config{Addr: netip.MustParseAddr("192.0.2.1")}, ErrInsecure},
		"other host, mapped":   {Config{Addr: netip.MustParseAddr("::ffff:192.0.2.1")}, ErrInsecure},
		"other host, insecure": {Config{Addr: netip.MustParseAddr("192.0.2.1"), Insecure: true}, nil},
		"other host, secured":  {Config{Addr: netip.MustParseAddr("192.0.2.1"), Credentials: anybody{}}, nil},
		"all":                  {Config{Addr: netip.MustParseAddr("0.0.0.0"), Insecure: true}, ErrConfig},
		"all, version 6":       {Config{Addr: netip.MustParseAddr("::"), Insecure: true}, ErrConfig},
		"many":                 {Config{Addr: netip.MustParseAddr("224.0.0.1"), Insecure: true}, ErrConfig},
		"zone":                 {Config{Addr: netip.MustParseAddr("fe80::1%lo"), Insecure: true}, ErrConfig},
		"mtu":                  {Config{MTU: minMTU - 1}, ErrConfig},
		"mtu, too":             {Config{MTU: maxMTU + 1}, ErrConfig},
		"lanes":                {Config{Lanes: maxLanes + 1}, ErrConfig},
		"no lanes":             {Config{Lanes: -1}, ErrConfig},
		"timeout":              {Config{Timeout: time.Millisecond}, ErrConfig},
		"connections":          {Config{MaxConn: -1}, ErrConfig},
		"rnr":                  {Config{RNRDelay: -1}, ErrConfig},
	} {
		d, err := Open(c.cfg)
		if c.want != nil {
			require.ErrorIs(t, err, c.want, name)
			continue
		}
		require.NoError(t, err, name)
		require.NoError(t, d.Close())
	}
}

func TestAddressThatIsNotHere(t *testing.T) {
	d := openDevice(t, Config{Addr: netip.MustParseAddr("192.0.2.1"), Insecure: true})
	q, err := d.OpenQP(device.QPConfig{})
	require.Error(t, err)
	require.Nil(t, q)
}

func TestReaches(t *testing.T) {
	open := func(s string) *attachment {
		return openDevice(t, Config{Addr: netip.MustParseAddr(s), Insecure: true})
	}
	lo4, lo6, v4, v6 := open("127.0.0.1"), open("::1"), open("192.0.2.1"), open("2001:db8::1")
	for s, who := range map[string]*attachment{
		"127.9.9.9": lo4, "::1": lo6, "192.0.2.9": v4, "169.254.1.1": v4, "2001:db8::9": v6,
		"fe80::1": nil, "::": nil, "0.0.0.0": nil, "224.0.0.1": nil, "ff02::1": nil,
	} {
		for _, d := range []*attachment{lo4, lo6, v4, v6} {
			require.Equal(t, d == who, d.Reaches(GIDOf(netip.MustParseAddr(s))), "%v to %s", d.cfg.Addr, s)
		}
	}
	require.Equal(t, "0:0:0:0:0:ffff:c000:201", v4.Info().GID.String())
	require.Equal(t, v4.cfg.Addr, AddrOf(v4.Info().GID))
}

// TestVersion6: the other family works as well.
func TestVersion6(t *testing.T) {
	lo := netip.MustParseAddr("::1")
	a, b := newNode(t, Config{Addr: lo}, device.QPConfig{}), newNode(t, Config{Addr: lo}, device.QPConfig{})
	require.Equal(t, device.StatusOK, a.status(a.send(b.at(), "six"), b))
	require.Equal(t, "six", string(b.recvs[0]))
}

// TestLanes: large requests go round the lanes of a session, small ones beside packets.
func TestLanes(t *testing.T) {
	a, b := newNode(t, Config{Lanes: 3}, device.QPConfig{}), newNode(t, Config{}, device.QPConfig{})
	require.Equal(t, device.StatusOK, a.status(a.send(b.at(), "x"), b))
	s := a.port().remotes[b.at()].dialed
	until(t, "lanes", func() bool { return b.port().acceptor.accepted == 4 && s.lanes[3].state == laneUp }, a, b)
	mr, err := b.d.Alloc(100_000, device.RemoteRead)
	require.NoError(t, err)
	defer mr.Close()
	used := func(size int) (lanes []int) {
		before := [4]uint64{}
		for i := range before {
			before[i] = s.lanes[i].sent
		}
		wr := a.wr(b.at())
		wr.Kind, wr.Payload, wr.RKey, wr.Remote = device.WRRead, make([]byte, size), mr.RKey(), mr.Addr()
		require.Equal(t, device.StatusOK, a.status(a.post(wr), b))
		for i := range before {
			if s.lanes[i].sent > before[i] {
				lanes = append(lanes, i)
			}
		}
		return lanes
	}
	require.Equal(t, []int{0}, used(smallRDMA))
	first := used(100_000)[0]
	for i := range 5 {
		require.Equal(t, []int{(first+i)%3 + 1}, used(100_000))
	}
}

// TestSilence: a queue pair's timeout is that of its owner, who waits for a peer no longer, if the device's is not
// set, or is longer.
func TestSilence(t *testing.T) {
	for _, c := range []struct{ device, owner, want time.Duration }{
		{0, 0, DefaultTimeout},
		{time.Second, 0, time.Second},
		{0, time.Second, time.Second},
		{0, time.Hour, time.Hour},
		{time.Minute, time.Second, time.Second},
		{time.Second, time.Minute, time.Second},
		{0, time.Millisecond, minTimeout},
	} {
		n := newNode(t, Config{Timeout: c.device}, device.QPConfig{Silence: c.owner})
		require.Equal(t, c.want, n.port().timeout, "%+v", c)
	}
}

package netlab

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// link is a pair of UDP sockets on two hosts, the simplest thing that shows each packet.
type link struct {
	t    *testing.T
	from *net.UDPConn
	to   *net.UDPConn
}

func newLink(t *testing.T, from, to *Host) *link {
	t.Helper()
	k := &link{t: t}
	var err error
	to.Do(func() { k.to, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(to.Addr(), 0))) })
	require.NoError(t, err)
	raw, err := k.to.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { // beyond what the machine allows: all of a test's packets
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20)
	}))
	require.NoError(t, err)
	from.Do(func() { k.from, err = net.DialUDP("udp", nil, k.to.LocalAddr().(*net.UDPAddr)) })
	require.NoError(t, err)
	t.Cleanup(func() { k.from.Close(); k.to.Close() })
	return k
}

// count sends n packets and returns how many arrived before there was silence, or all
// had.
func (k *link) count(n int, silence time.Duration) (got int) {
	k.t.Helper()
	for sent := range n {
		_, _ = k.from.Write(make([]byte, 64))
		if sent%16 == 15 { // so that no queue overflows
			wait(time.Millisecond)
		}
	}
	for since := clock.System.Now(); ; wait(time.Millisecond) {
		now := clock.System.Now() // before the look: a busy machine may hold it up
		if came := k.drain(); came > 0 {
			got += came
			since = now
		}
		if got >= n || now.Sub(since) > silence {
			return got
		}
	}
}

// drain reads the packets that have arrived.
func (k *link) drain() (n int) {
	k.t.Helper()
	raw, err := k.to.SyscallConn()
	require.NoError(k.t, err)
	buf := make([]byte, 2048)
	require.NoError(k.t, raw.Control(func(fd uintptr) {
		for ; err == nil; n++ {
			if _, _, err = unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT); errors.Is(err, unix.EINTR) {
				err = nil
				n--
			}
		}
	}))
	require.ErrorIs(k.t, err, unix.EAGAIN)
	return n - 1
}

// Silences: patient is for packets that should all come, on a busy machine too.
const (
	patient = testenv.Hang
	short   = 100 * time.Millisecond
)

func wait(d time.Duration) { <-clock.NewTimer(d).C }

func TestLabIsApart(t *testing.T) {
	Require(t)
	before := interfaces(t)
	l := New(t, Options{Hosts: 3})
	require.Equal(t, before, interfaces(t), "of this machine")
	for _, h := range l.Hosts() {
		out, err := h.Run("ip", "-4", "-o", "addr", "show", "eth0")
		require.NoError(t, err, out)
		require.Contains(t, out, h.Addr().String()+"/24")
	}
	require.Equal(t, 100, newLink(t, l.Host(0), l.Host(2)).count(100, patient))
	out, err := l.Host(0).Run("ip", "route", "get", "192.0.2.1")
	require.Error(t, err, out)
}

func interfaces(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("ip", "-o", "link").CombinedOutput()
	require.NoError(t, err)
	return string(out)
}

func TestLoss(t *testing.T) {
	l := New(t, Options{Hosts: 2})
	k := newLink(t, l.Host(0), l.Host(1))
	require.Equal(t, 1, k.count(1, patient)) // ARP has its answer: a packet that waits for it is discarded
	l.Host(1).Loss(30)
	got := k.count(1000, time.Second)
	assert.InDelta(t, 700, got, 100)
	l.Host(1).Loss(0)
	require.Equal(t, 100, k.count(100, patient))
}

func TestCutAndUnplug(t *testing.T) {
	for name, o := range map[string]Options{"veth": {Hosts: 3}, "delay": {Hosts: 3, Delay: time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			l := New(t, o)
			k, other := newLink(t, l.Host(0), l.Host(1)), newLink(t, l.Host(0), l.Host(2))
			require.Equal(t, 10, k.count(10, patient))
			l.Cut(0, 1)
			require.Zero(t, k.count(10, short))
			require.Equal(t, 10, other.count(10, patient))
			l.Mend(1, 0)
			require.Equal(t, 10, k.count(10, patient))
			l.Host(1).Unplug()
			require.Zero(t, k.count(10, short))
			require.Equal(t, 10, other.count(10, patient))
			l.Host(1).Plug()
			for from := clock.System.Now(); k.count(10, time.Second) == 0; { // some fall while ARP asks
				require.Less(t, clock.System.Now().Sub(from), time.Minute)
			}
		})
	}
}

func TestRate(t *testing.T) {
	l := New(t, Options{Hosts: 2})
	l.Host(0).Rate(8000) // 1 MB/s
	took := transfer(t, l.Host(0), l.Host(1), 700_000)
	require.Greater(t, took, 400*time.Millisecond)
	l.Host(0).Rate(0)
	require.True(t, inTime(300*time.Millisecond, func() time.Duration { return transfer(t, l.Host(0), l.Host(1), 700_000) }))
}

func TestDelay(t *testing.T) {
	l := New(t, Options{Hosts: 2, Delay: 20 * time.Millisecond})
	// A connection is set up, and its first byte comes, in one and a half round trips.
	took := transfer(t, l.Host(0), l.Host(1), 1)
	require.Greater(t, took, 60*time.Millisecond)
	l.Host(0).Delay(0)
	l.Host(1).Delay(0)
	require.True(t, inTime(60*time.Millisecond, func() time.Duration { return transfer(t, l.Host(0), l.Host(1), 1) }))
	transfer(t, l.Host(0), l.Host(1), 8<<20)
}

// inTime reports whether something can be done in a time: on a busy machine the first
// attempts may take longer.
func inTime(d time.Duration, attempt func() time.Duration) bool {
	for range 50 {
		if attempt() < d {
			return true
		}
	}
	return false
}

// transfer sends this many bytes over TCP and returns how long it took.
func transfer(t *testing.T, from, to *Host, size int) time.Duration {
	t.Helper()
	var ln *net.TCPListener
	var out *net.TCPConn
	var err error
	to.Do(func() { ln, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(to.Addr(), 0))) })
	require.NoError(t, err)
	defer ln.Close()
	begin := clock.System.Now()
	from.Do(func() { out, err = net.DialTCP("tcp", nil, ln.Addr().(*net.TCPAddr)) })
	require.NoError(t, err)
	go func() {
		defer out.Close()
		_, _ = out.Write(make([]byte, size))
	}()
	in, err := ln.Accept()
	require.NoError(t, err)
	defer in.Close()
	require.NoError(t, in.SetDeadline(clock.Deadline(time.Minute)))
	n, err := io.Copy(io.Discard, in)
	require.NoError(t, err)
	require.EqualValues(t, size, n)
	return clock.System.Now().Sub(begin)
}

// Nothing of a lab is left behind it, programs included.
func TestLabGoes(t *testing.T) {
	Require(t)
	var name string
	var c *exec.Cmd
	t.Run("lab", func(t *testing.T) {
		l := New(t, Options{Hosts: 2, Delay: time.Millisecond})
		name = l.name
		c = l.Host(0).Command("sleep", "1000")
		require.NoError(t, c.Start())
	})
	require.Error(t, c.Wait(), "killed")
	entries, err := os.ReadDir(nsDir)
	require.NoError(t, err)
	for _, e := range entries {
		require.False(t, strings.HasPrefix(e.Name(), name), e.Name())
	}
}

func TestSweep(t *testing.T) {
	Require(t)
	gone := "efactor-4194999-77-1-sw"   // beyond the largest pid
	reused := "efactor-1-99999999-1-sw" // pid 1 began earlier
	kept := []string{prefix() + "sw", "efactor-x-1-1-sw", "efactor-4194999-77-1-1-sw"}
	for _, ns := range append([]string{gone, reused}, kept...) {
		require.NoError(t, run("", "ip", "netns", "add", ns))
		t.Cleanup(func() { _ = run("", "ip", "netns", "del", ns) })
	}
	sweep()
	for _, ns := range []string{gone, reused} {
		require.NoFileExists(t, nsDir+"/"+ns)
	}
	for _, ns := range kept {
		require.FileExists(t, nsDir+"/"+ns)
	}
}

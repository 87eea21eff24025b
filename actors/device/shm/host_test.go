//go:build linux

package shm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

func init() { roles["guest"] = guest }

// guest is a process with a GID of its own, that of the host named. It says its queue
// pair's number, sends one packet to the test's, and receives until it ends.
func guest(args []string) error {
	d, err := Open(Config{Dir: args[0], GID: HostGID(args[1])})
	if err != nil {
		return err
	}
	q, err := d.OpenQP(device.QPConfig{QKey: testQKey, RNRRetry: 7})
	if err != nil {
		return err
	}
	ah, err := q.CreateAH(HostGID("home"))
	if err != nil {
		return err
	}
	for i := range q.RecvSlots() {
		q.PostRecv([]int32{int32(i)})
	}
	if args[2] == "speak" {
		if err := q.PostSend(&device.SendWR{AH: ah, QPN: testQPN, Header: []byte(args[1])}); err != nil {
			return err
		}
	}
	say(q.QPN())
	<-orphaned()
	return nil
}

// openHost opens a device with a host's GID, and a queue pair.
func openHost(t testing.TB, dir, name string, qc device.QPConfig) device.QP {
	t.Helper()
	d, err := Open(Config{Dir: dir, GID: HostGID(name)})
	require.NoError(t, err)
	require.Equal(t, HostGID(name), d.Info().GID)
	q, err := d.OpenQP(qc)
	require.NoError(t, err)
	portsBehind.Store(q, portOf(t, d))
	t.Cleanup(func() {
		portsBehind.Delete(q)
		require.NoError(t, q.Close())
		require.NoError(t, d.Close())
	})
	for i := range q.RecvSlots() {
		q.PostRecv([]int32{int32(i)})
	}
	return q
}

// next polls until something comes that is no end of a send.
func next(q device.QP) (got device.Completion) {
	for got.Op == 0 {
		var c [1]device.Completion // what is behind it stays
		if q.Poll(c[:]) == 1 && c[0].Op != device.OpSend {
			got = c[0]
		}
	}
	return got
}

// Processes of one directory may have GIDs of their own. A packet shows its sender's,
// and news of a death shows the GID of the dead, whether it was known as a sender, from
// its entry, or as a receiver, from its segment.
func TestHosts(t *testing.T) {
	dir := fabricDir(t)
	q := openHost(t, dir, "home", device.QPConfig{QPN: testQPN})
	for _, name := range []string{"near", "far"} {
		gid := HostGID(name)
		speaker := start(t, "guest", dir, name, "speak")
		got := next(q)
		require.Equal(t, device.Completion{
			ID: got.ID, Op: device.OpRecv, Len: len(name), AH: device.UnknownAH, SrcQPN: speaker.qpn, SrcGID: gid,
		}, got)
		require.Equal(t, name, string(q.RecvBytes(int(got.ID))[:got.Len]))

		listener := start(t, "guest", dir, name, "listen")
		ah, err := q.CreateAH(gid)
		require.NoError(t, err)
		require.Equal(t, device.StatusOK, statusOf(t, q, &device.SendWR{AH: ah, QPN: listener.qpn, QKey: testQKey}))
		for _, wrong := range []device.GID{HostGID("home"), HostGID("nobody")} {
			other, err := q.CreateAH(wrong)
			require.NoError(t, err)
			for range 2 {
				wr := &device.SendWR{AH: other, QPN: listener.qpn, QKey: testQKey}
				require.Equal(t, device.StatusBadDestQPN, statusOf(t, q, wr))
			}
		}
		require.NoError(t, q.DestroyAH(ah))
		for _, p := range []*process{speaker, listener} {
			p.kill()
			got := next(q)
			require.Equal(t, device.OpGone, got.Op)
			require.Equal(t, p.qpn, got.SrcQPN)
			require.Equal(t, gid, got.SrcGID)
			require.Equal(t, device.UnknownAH, got.AH)
			require.Equal(t, uint32(testQKey), got.QKey)
		}
	}
}

// Queue pair numbers are the directory's, for all GIDs.
func TestHostsShareNumbers(t *testing.T) {
	dir := fabricDir(t)
	openHost(t, dir, "a", device.QPConfig{QPN: testQPN})
	d, err := Open(Config{Dir: dir, GID: HostGID("b")})
	require.NoError(t, err)
	_, err = d.OpenQP(device.QPConfig{QPN: testQPN})
	require.ErrorIs(t, err, device.ErrQPNInUse)
	require.NoError(t, d.Close())
	require.Equal(t, HostGID("a"), HostGID("a"))
	require.NotEqual(t, HostGID("a"), HostGID("b"))
	require.Equal(t, []byte{0xfe, 0x80, 0, 0, 0, 0, 0, 0}, append([]byte{}, gidHead(HostGID("a"))...))
}

func gidHead(g device.GID) []byte { return g[:8] }

// A link has the handle by which it was used lately; it drops a handle that comes to
// mean another GID; other links are found by their GID.
func TestLinkHandles(t *testing.T) {
	dir := fabricDir(t)
	b := openHost(t, dir, "b", device.QPConfig{})
	c := openHost(t, dir, "c", device.QPConfig{})
	q := openHost(t, dir, "a", device.QPConfig{})
	p := portBehind(q)
	route := func(ah device.AH, name string) { require.NoError(t, p.Route(ah, HostGID(name))) }
	send := func(ah device.AH, to device.QP) device.Status {
		return p.Send(&device.SendWR{AH: ah, QPN: to.QPN(), Header: []byte("x")}, 0)
	}
	route(3, "b")
	require.Equal(t, device.StatusOK, send(3, b))
	l := p.links.get(b.QPN())
	require.Equal(t, device.AH(3), l.ah)
	p.Unroute(3)
	route(3, "b") // the same again
	require.Equal(t, device.AH(3), l.ah)
	require.Equal(t, device.StatusOK, send(3, b))
	p.Unroute(3)
	route(3, "c")
	require.Equal(t, device.UnknownAH, l.ah)
	require.Equal(t, device.StatusBadDestQPN, send(3, b))
	require.Equal(t, device.StatusOK, send(3, c))
	route(0, "b")
	require.Equal(t, device.StatusOK, send(0, b))
	require.Same(t, l, p.links.get(b.QPN()), "nothing was mapped anew")
	require.Equal(t, device.AH(0), l.ah)
	require.Equal(t, device.StatusBadDestQPN, send(0, c))
}

// TestHostID: a host has a name where the kernel does not say which boot it is.
func TestHostID(t *testing.T) {
	name, err := os.Hostname()
	require.NoError(t, err)
	at := filepath.Join(t.TempDir(), "boot_id")
	require.Equal(t, name+" ", string(hostID(at)))
	require.NoError(t, os.WriteFile(at, []byte("b\n"), 0o600))
	require.Equal(t, "b\n", string(hostID(at)))
}

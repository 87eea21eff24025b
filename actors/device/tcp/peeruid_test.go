//go:build linux

package tcp

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

const (
	// sendVar makes the test binary send one packet to this address and print how that
	// ended.
	sendVar = "EFACTOR_TCP_TEST_SEND"
	// openVar opens the door to other users in the other process.
	openVar = "EFACTOR_TCP_TEST_OPEN"

	nobody = 65534
)

// sendOnce is the other process.
func sendOnce(to string) error {
	at, err := netip.ParseAddrPort(to)
	if err != nil {
		return err
	}
	d, err := Open(Config{AnyLocalUser: os.Getenv(openVar) != ""})
	if err != nil {
		return err
	}
	q, err := d.OpenQP(device.QPConfig{QKey: 5})
	if err != nil {
		return err
	}
	ah, err := q.CreateAH(GIDOf(at.Addr()))
	if err != nil {
		return err
	}
	if err := q.PostSend(&device.SendWR{AH: ah, QPN: at.Port(), QKey: 5, Header: []byte("let me in")}); err != nil {
		return err
	}
	q.Doorbell()
	var c [1]device.Completion
	for q.Poll(c[:]) == 0 {
		if q.Arm() {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(q.FDs()[0]), Events: unix.POLLIN}}, 100)
		}
	}
	fmt.Println(c[0].Status)
	return q.Close()
}

// asNobody makes a command of this test binary that runs as another user.
func asNobody(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	dir, err := os.MkdirTemp("", "efactor") //nolint:usetesting // others may not go where t.TempDir is
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o711))
	name := filepath.Join(dir, "test")
	from, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer from.Close()
	to, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(to, from)
	require.NoError(t, err)
	require.NoError(t, to.Chmod(0o755))
	require.NoError(t, to.Close())
	cmd := exec.Command(name)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd
}

// TestOtherUserDials: on loopback a process of another user does not become a peer, unless
// the door was opened to all.
func TestOtherUserDials(t *testing.T) {
	for _, open := range []bool{false, true} {
		n := newNode(t, Config{AnyLocalUser: open}, device.QPConfig{})
		to := netip.AddrPortFrom(AddrOf(n.at().gid), n.at().qpn)
		cmd := asNobody(t, sendVar+"="+to.String(), openVar+"=1")
		var out strings.Builder
		cmd.Stdout = &out
		done := make(chan error, 1)
		require.NoError(t, cmd.Start())
		go func() { done <- cmd.Wait() }()
		until(t, "the end of the other process", func() bool { return len(done) == 1 }, n)
		require.NoError(t, <-done)
		if open {
			require.Equal(t, "ok\n", out.String())
			require.Len(t, n.recvs, 1)
			continue
		}
		require.Equal(t, device.StatusUnknownPeer.String()+"\n", out.String())
		require.Empty(t, n.recvs)
		require.NotZero(t, n.d.Stats().OtherUsers)
	}
}

// TestOtherUserListens: nor is anything sent to a process of another user that listens where
// a peer should be, not even our Q_Key.
func TestOtherUserListens(t *testing.T) {
	for _, open := range []bool{false, true} {
		_, at, _ := startEchoAs(t, asNobody(t, openVar+"=1"))
		n := newNode(t, Config{AnyLocalUser: open}, device.QPConfig{})
		id := n.send(at, "who are you?")
		if open {
			require.Equal(t, device.StatusOK, n.status(id))
			continue
		}
		require.Equal(t, device.StatusUnknownPeer, n.status(id))
		require.EqualValues(t, 1, n.d.Stats().OtherUsers)
	}
}

// TestOwners: both ways to look a socket up say the same, of exactly one pair; where neither
// answers nobody gets in.
func TestOwners(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "[::1]"} {
		l, err := net.Listen("tcp", host+":0")
		require.NoError(t, err)
		defer l.Close()
		a, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		defer a.Close()
		p := sockPair{near: addressIn(a.LocalAddr()), far: addressIn(l.Addr())}
		back := sockPair{near: p.far, far: p.near}
		other := p
		other.far.qpn++
		listener := sockPair{near: p.far, far: address{gid: p.near.gid}}

		diag, file := newSocketOwners(), newSocketOwners()
		defer diag.close()
		require.GreaterOrEqual(t, file.diag, 0)
		file.close()
		file.diag = -1
		diag.tcp4, diag.tcp6 = "/nonexistent", "/nonexistent"
		for name, o := range map[string]*socketOwners{"sock_diag": diag, "proc": file} {
			uid, err := o.of(p)
			require.NoError(t, err, name)
			require.EqualValues(t, os.Geteuid(), uid, name)
			_, err = o.of(back)
			require.ErrorIs(t, err, errNoSocket, "%s: not accepted yet", name)
			for _, q := range []sockPair{other, listener} {
				_, err = o.of(q)
				require.ErrorIs(t, err, errNoSocket, name)
			}
		}
		b, err := l.Accept()
		require.NoError(t, err)
		defer b.Close()
		for name, o := range map[string]*socketOwners{"sock_diag": diag, "proc": file} {
			uid, err := o.of(back)
			require.NoError(t, err, name)
			require.EqualValues(t, os.Geteuid(), uid, name)
		}
		none := &socketOwners{diag: -1, tcp4: "/nonexistent", tcp6: "/nonexistent"}
		_, err = none.of(p)
		require.ErrorIs(t, err, errNoOwners)
	}
}

func addressIn(a net.Addr) address {
	at := a.(*net.TCPAddr).AddrPort()
	return address{GIDOf(at.Addr()), at.Port()}
}

// TestNobodyKnows: if the system does not say whose a socket is, nobody gets in.
func TestNobodyKnows(t *testing.T) {
	a, b := newNode(t, Config{}, device.QPConfig{}), newNode(t, Config{AnyLocalUser: true}, device.QPConfig{})
	o := a.port().acceptor.uids.owners
	o.close()
	o.diag, o.tcp4 = -1, "/nonexistent"
	require.Equal(t, device.StatusUnknownPeer, a.status(a.send(b.at(), "x"), b))
	require.Equal(t, device.StatusUnknownPeer, b.status(b.send(a.at(), "x"), a))
	require.EqualValues(t, 2, a.d.Stats().OtherUsers)
}

// TestWithoutSockDiag: without it, the file is as good.
func TestWithoutSockDiag(t *testing.T) {
	a, b := newNode(t, Config{}, device.QPConfig{}), newNode(t, Config{}, device.QPConfig{})
	o := a.port().acceptor.uids.owners
	o.close()
	o.diag = -1
	require.Equal(t, device.StatusOK, a.status(a.send(b.at(), strconv.Itoa(1)), b))
}

//go:build linux

package tcp

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

var (
	tlsSecret = []byte("the secret of these tests")

	// Both on loopback, so that the sockets' addresses agree.
	tlsA = wire.MakeRawAddr(GIDOf(netip.MustParseAddr("127.0.0.1")), 7001, 0xa)
	tlsB = wire.MakeRawAddr(GIDOf(netip.MustParseAddr("127.0.0.1")), 7002, 0xb)
)

// end is a stream and its bell, which is watched as a shard does.
type end struct {
	t *testing.T
	stream
	ep    int // becomes readable at an edge
	bell  *bell
	other *end // whose shard is at work, too; nil: nobody need care

	running sync.WaitGroup
	closed  bool
}

func (e *end) close() {
	if !e.closed {
		e.closed = true
		e.stream.close()
		e.running.Wait()
		e.bell.close()
		e.unwatch()
	}
}

// wait is until an edge comes.
func (e *end) wait() {
	e.t.Helper()
	deadline := clock.System.Now().Add(time.Minute)
	for clock.System.Now() < deadline {
		patience := 1000
		if e.other != nil && !e.other.closed {
			_, _ = e.other.readv(nil, nil)
			patience = 1
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(e.ep), Events: unix.POLLIN}}, patience)
		e.look()
		if news := e.bell.heard(); n > 0 || len(news.lanes) > 0 {
			return
		}
		if err != nil && err != unix.EINTR {
			require.NoError(e.t, err)
		}
	}
	require.Fail(e.t, "no edge")
}

// readSome waits for the next bytes, or an error.
func (e *end) readSome(p []byte) (int, error) {
	e.t.Helper()
	for {
		n, err := e.readv(p[:len(p)/2], p[len(p)/2:])
		if n > 0 || err != nil {
			return n, err
		}
		e.wait()
	}
}

// readErr reads until the error comes.
func (e *end) readErr() error {
	e.t.Helper()
	p := make([]byte, 4096)
	for {
		if _, err := e.readSome(p); err != nil {
			return err
		}
	}
}

// sendAll waits for room as long as it must.
func (e *end) sendAll(p []byte) error {
	e.t.Helper()
	for {
		half := len(p) / 2
		n, err := e.writev([][]byte{p[:half], nil, p[half:]})
		if err != nil {
			return err
		}
		if p = p[n:]; len(p) == 0 {
			return nil
		}
		e.wait()
	}
}

// socks are both sides of a connection over loopback.
func socks(t *testing.T) (dialed, accepted *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	b, err := l.Accept()
	require.NoError(t, err)
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

func jobCreds(t *testing.T, secret []byte) Credentials {
	t.Helper()
	c, err := JobSecret(secret)
	require.NoError(t, err)
	return c
}

func tlsConn(dialed bool) conn {
	cfg := Config{Timeout: tlsTimeout}.withDefaults()
	c := conn{dialed: dialed, self: tlsB, peer: tlsA.GID(), cfg: &cfg}
	if dialed {
		c.self, c.peer, c.peerQPN = tlsA, tlsB.GID(), tlsB.QPN()
	}
	return c
}

// tlsEnd makes a stream of one side.
func tlsEnd(t *testing.T, sock *net.TCPConn, creds Credentials, c conn) *end {
	t.Helper()
	bell, err := newBell()
	require.NoError(t, err)
	e := &end{t: t, bell: bell}
	c.ring, c.running = func() { bell.ring(nil) }, &e.running
	e.stream, err = creds.wrap(socketOf(t, sock), c)
	require.NoError(t, err)
	e.watch()
	t.Cleanup(e.close)
	return e
}

// tlsPair are two streams of one job.
func tlsPair(t *testing.T) (a, b *end) {
	t.Helper()
	a, b = tlsBegin(t)
	meet(t, a, b)
	return a, b
}

// tlsBegin are two streams of one job, before their handshake.
func tlsBegin(t *testing.T) (a, b *end) {
	t.Helper()
	x, y := socks(t)
	return tlsEnd(t, x, jobCreds(t, tlsSecret), tlsConn(true)),
		tlsEnd(t, y, jobCreds(t, tlsSecret), tlsConn(false))
}

// meet brings a handshake to its end.
func meet(t *testing.T, a, b *end) {
	t.Helper()
	a.other, b.other = b, a
	for _, e := range []*end{a, b} {
		for {
			_, err := e.readv(nil, nil)
			require.NoError(t, err)
			if e.isUp() {
				break
			}
			e.wait()
		}
	}
	a.other, b.other = nil, nil
}

// noGoroutines waits until those that have nothing more to do have ended.
func noGoroutines(t *testing.T) {
	t.Helper()
	var err error
	for begin := clock.System.Now(); clock.System.Now().Sub(begin) < time.Minute; {
		if err = goleak.Find(); err == nil { // which waits for a moment itself
			return
		}
	}
	require.NoError(t, err)
}

// descriptors is how many this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(d)
}

// company is an authority of a caller's.
type company struct {
	cert *x509.Certificate
	key  ed25519.PrivateKey
	pool *x509.CertPool
}

func newCompany(t *testing.T) *company {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		NotAfter: clock.Wall().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, pub, key)
	require.NoError(t, err)
	c := &company{key: key, pool: x509.NewCertPool()}
	c.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	c.pool.AddCert(c.cert)
	return c
}

func (c *company) credentials(t *testing.T, ip net.IP) Credentials {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		NotAfter: clock.Wall().Add(time.Hour), IPAddresses: []net.IP{ip}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, c.cert, pub, c.key)
	require.NoError(t, err)
	creds, err := Certificates(&tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: c.pool,
	})
	require.NoError(t, err)
	return creds
}

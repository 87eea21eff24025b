//go:build linux

package tcp

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/tcp/jobcert"
	"github.com/efactor/efactor/internal/devicetest"
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

const (
	tlsTimeout = 20 * time.Second
	bulk       = 256 << 10 // more than the stream takes at once
)

// counting is a stream of bytes that shows a missing, doubled or moved one.
func counting(from, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		at := from + i
		p[i] = byte(at ^ at>>8 ^ at>>16)
	}
	return p
}

// Both directions at once, pieces of all sizes, driven by edges alone.
func TestTLSStreamCarries(t *testing.T) {
	const total = 8 << 20
	a, b := tlsPair(t)
	var wg sync.WaitGroup
	for i, e := range []*end{a, b} {
		wg.Go(func() { // one goroutine an end, as a shard
			rnd := mathrand.New(mathrand.NewPCG(uint64(i), 7))
			sent, got := 0, 0
			buf := make([]byte, 128<<10)
			for sent < total || got < total {
				moved := 0
				if sent < total {
					p := counting(sent, min(total-sent, 1+rnd.IntN(100_000)))
					cut := rnd.IntN(len(p) + 1)
					n, err := e.writev([][]byte{p[:cut], p[cut:]})
					if !assert.NoError(t, err) {
						return
					}
					if sent += n; n == len(p) {
						moved = n
					}
				}
				cut := rnd.IntN(len(buf))
				n, err := e.readv(buf[:cut], buf[cut:])
				if !assert.NoError(t, err) || !assert.Equal(t, counting(got, n), buf[:n]) {
					return
				}
				if got += n; moved == 0 && n < len(buf) && (sent < total || got < total) {
					e.wait()
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, a.vouch(tlsB))
	require.NoError(t, b.vouch(tlsA))
}

func TestTLSStreamVouches(t *testing.T) {
	a, b := tlsPair(t)
	silent := newSilent(t)
	n, err := silent.writev([][]byte{[]byte("too early")})
	require.NoError(t, err)
	require.Zero(t, n)
	require.ErrorIs(t, silent.vouch(tlsA), errImpostor, "before the handshake nobody is")
	require.NoError(t, a.sendAll([]byte("preamble")))
	p := make([]byte, 8)
	_, err = io.ReadFull(reader{b}, p)
	require.NoError(t, err)
	require.Equal(t, "preamble", string(p))
	require.NoError(t, b.vouch(tlsA))
	for _, lie := range []wire.RawAddr{
		tlsB,
		{},
		wire.MakeRawAddr(tlsA.GID(), tlsA.QPN(), tlsA.ConnID()+1),
		wire.MakeRawAddr(tlsA.GID(), tlsA.QPN()+1, tlsA.ConnID()),
		wire.MakeRawAddr([16]byte{15: 1}, tlsA.QPN(), tlsA.ConnID()),
	} {
		err := b.vouch(lie)
		require.ErrorIs(t, err, errImpostor)
		require.ErrorIs(t, err, jobcert.ErrAddress)
	}
}

type reader struct{ *end }

func (r reader) Read(p []byte) (int, error) { return r.readSome(p) }

// newSilent is a stream whose other side says nothing.
func newSilent(t *testing.T) *end {
	t.Helper()
	x, y := socks(t)
	t.Cleanup(func() { _ = y.Close() })
	return tlsEnd(t, x, jobCreds(t, tlsSecret), tlsConn(true))
}

// A stream that is given up at any time leaves neither goroutines nor descriptors.
func TestTLSStreamLeavesNothing(t *testing.T) {
	before := descriptors(t)
	newSilent(t).close()
	a, b := tlsBegin(t)
	require.LessOrEqual(t, descriptors(t), before+8, "a stream has one, and here a bell, and perhaps an epoll")
	a.close() // within the handshake
	require.Error(t, b.readErr())
	b.close()
	a, b = tlsPair(t)
	require.NoError(t, a.sendAll([]byte{1}))
	_, err := b.readSome(make([]byte, 2))
	require.NoError(t, err)
	b.close()
	require.Error(t, a.readErr())
	a.close()
	noGoroutines(t)
	for begin := clock.System.Now(); descriptors(t) > before+2; runtime.Gosched() { // newSilent's other side, and room for the runtime
		require.Less(t, clock.System.Now().Sub(begin), time.Minute, "descriptors are left")
	}
}

// Bytes written before shut arrive, then the end; the other direction goes on.
func TestTLSStreamShut(t *testing.T) {
	a, b := tlsPair(t)
	want := counting(0, bulk)
	require.NoError(t, a.sendAll(want))
	a.shut()
	got := make([]byte, len(want))
	_, err := io.ReadFull(reader{b}, got)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.ErrorIs(t, b.readErr(), io.EOF)
	require.NoError(t, b.sendAll([]byte("yes")))
	_, err = io.ReadFull(reader{a}, got[:3])
	require.NoError(t, err)
	require.Equal(t, "yes", string(got[:3]))
}

// Bytes written before shut arrive also if close follows at once.
func TestTLSStreamCloseFlushes(t *testing.T) {
	a, b := tlsPair(t)
	want := counting(0, bulk)
	got := make([]byte, len(want))
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := io.ReadFull(reader{b}, got)
		assert.NoError(t, err)
		assert.ErrorIs(t, b.readErr(), io.EOF)
	})
	require.NoError(t, a.sendAll(want))
	a.shut()
	a.close()
	wg.Wait()
	require.Equal(t, want, got)
}

// A side that does not read stops the other one, which sees so, and nothing is lost
// when it reads on.
func TestTLSStreamBackPressure(t *testing.T) {
	a, b := tlsPair(t)
	require.NoError(t, a.sendAll([]byte{0}))
	_, err := b.readSome(make([]byte, 1))
	require.NoError(t, err)
	const chunk = 32 << 10
	sent := 0
	for stuck := 0; stuck < 200; { // both socket buffers are full then
		n, err := a.writev([][]byte{counting(sent, chunk)})
		require.NoError(t, err)
		if sent += n; n == 0 {
			stuck++
			_, _ = unix.Poll(nil, 1)
		} else {
			stuck = 0
		}
		require.Less(t, sent, 64<<20, "somebody buffers without a bound")
	}
	require.Positive(t, a.unacked())
	got := make([]byte, sent+chunk)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := io.ReadFull(reader{b}, got)
		assert.NoError(t, err)
	})
	a.wait() // notified that there is room again
	require.NoError(t, a.sendAll(counting(sent, chunk)))
	wg.Wait()
	require.Equal(t, counting(0, len(got)), got)
}

// Every fault at the other end becomes an error of readv.
func TestTLSStreamRefuses(t *testing.T) {
	for name, other := range map[string]func(t *testing.T, sock *net.TCPConn) *end{
		"other secret": func(t *testing.T, sock *net.TCPConn) *end {
			return tlsEnd(t, sock, jobCreds(t, []byte("quite another secret")), tlsConn(false))
		},
		"other queue pair": func(t *testing.T, sock *net.TCPConn) *end {
			c := tlsConn(false)
			c.self = tlsA
			return tlsEnd(t, sock, jobCreds(t, tlsSecret), c)
		},
		"both dialed": func(t *testing.T, sock *net.TCPConn) *end {
			return tlsEnd(t, sock, jobCreds(t, tlsSecret), tlsConn(true))
		},
		"no TLS": func(t *testing.T, sock *net.TCPConn) *end {
			_, err := sock.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
			require.NoError(t, err)
			t.Cleanup(func() { _ = sock.Close() })
			return nil
		},
		"end": func(_ *testing.T, sock *net.TCPConn) *end { _ = sock.Close(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			x, y := socks(t)
			a := tlsEnd(t, x, jobCreds(t, tlsSecret), tlsConn(true))
			a.other = other(t, y)
			err := a.readErr()
			require.Error(t, err)
			require.NotErrorIs(t, err, io.EOF)
			_, werr := a.writev([][]byte{{1}})
			require.Equal(t, err, werr)
		})
	}
}

// A connection that breaks off is an error; io.EOF means that the other side has
// closed it properly.
func TestTLSStreamTruncated(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  func(a *end) error
		want error
	}{
		{"end", func(a *end) error { return a.cut() }, errBrokenOff},
		{"reset", func(a *end) error {
			defer a.close()
			return a.abort()
		}, unix.ECONNRESET},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := tlsPair(t)
			require.NoError(t, a.sendAll([]byte{1}))
			_, err := b.readSome(make([]byte, 1))
			require.NoError(t, err)
			for a.unacked() > 0 { // the writer is at rest
				_, _ = unix.Poll(nil, 1)
			}
			require.NoError(t, c.cut(a))
			require.ErrorIs(t, b.readErr(), c.want)
		})
	}
}

// Certificates of the caller's work through the same streams.
func TestTLSStreamOwnCertificates(t *testing.T) {
	company := newCompany(t)
	good, wrong := company.credentials(t, net.IPv4(127, 0, 0, 1)), company.credentials(t, net.IPv4(127, 0, 0, 2))

	x, y := socks(t)
	a, b := tlsEnd(t, x, good, tlsConn(true)), tlsEnd(t, y, good, tlsConn(false))
	meet(t, a, b)
	require.NoError(t, a.sendAll([]byte{1}))
	_, err := b.readSome(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, b.vouch(tlsA))

	x, y = socks(t)
	a, b = tlsEnd(t, x, wrong, tlsConn(true)), tlsEnd(t, y, good, tlsConn(false))
	meet(t, a, b)
	require.NoError(t, a.sendAll([]byte{1}))
	_, err = b.readSome(make([]byte, 1))
	require.NoError(t, err)
	require.ErrorIs(t, b.vouch(tlsA), jobcert.ErrAddress, "of another host")

	_, err = Certificates(&tls.Config{})
	require.ErrorIs(t, err, jobcert.ErrConfig)
	_, err = JobSecret(make([]byte, jobcert.MinSecret-1))
	require.ErrorIs(t, err, jobcert.ErrSecret)
}

// One key for each queue pair, and no more of them than queue pairs.
func TestSecuredCache(t *testing.T) {
	s := jobCreds(t, tlsSecret).(*secured)
	x, err := s.of(tlsA)
	require.NoError(t, err)
	again, err := s.of(tlsA)
	require.NoError(t, err)
	require.Same(t, x, again)
	for i := range maxQP + 7 {
		_, err := s.of(wire.MakeRawAddr(tlsA.GID(), uint16(i), 1))
		require.NoError(t, err)
		require.LessOrEqual(t, len(s.byQP), maxQP)
	}
}

// TestConformanceTLS: the whole contract again, over streams of a job secret.
func TestConformanceTLS(t *testing.T) {
	creds := jobCreds(t, tlsSecret)
	devicetest.RunPart(t, 1, 2, func(tb testing.TB, devices int) *devicetest.Fabric {
		f := factoryOf(func() Config { return Config{Credentials: creds} })(tb, devices)
		f.Allocates = true
		serve := f.Progress
		f.Progress = func() {
			serve()
			runtime.Gosched() // the streams' goroutines have as many processors as this case leaves
		}
		return f
	})
}

// TestTLSSilence: a handshake that does not go on is given up, on either side.
func TestTLSSilence(t *testing.T) {
	inTime(t, func() {
		n := newNode(t, Config{Timeout: shortly, Credentials: jobCreds(t, tlsSecret)}, device.QPConfig{})
		f := newFoe(t, n, nil)
		f.closed()
		h := newHost(t, n)
		require.Equal(t, device.StatusUnresponsive, n.status(n.send(h.at, "hello?")))
	})
}

// TestTLSStrangers: a connection within its handshake costs one descriptor and nothing after
// its end, and gives way where there is none for a new one.
func TestTLSStrangers(t *testing.T) {
	skipPoller(t)
	cfg := func() Config { return Config{Credentials: jobCreds(t, tlsSecret)} }
	n, peer := newNode(t, cfg(), device.QPConfig{}), newNode(t, cfg(), device.QPConfig{})
	require.Equal(t, device.StatusOK, n.status(n.send(peer.at(), "warm"), peer)) // the session and its lanes
	until(t, "lanes", func() bool { return peer.port().acceptor.accepted == 2 }, n, peer)
	before := descriptors(t)
	const lots = 20
	var foes []net.Conn
	to := net.TCPAddr{IP: AddrOf(n.at().gid).AsSlice(), Port: int(n.at().qpn)}
	for range lots {
		c, err := net.DialTCP("tcp", nil, &to)
		require.NoError(t, err)
		defer c.Close()
		foes = append(foes, c)
	}
	until(t, "strangers", func() bool { return n.port().acceptor.accepted == lots }, n)
	require.LessOrEqual(t, descriptors(t), before+2*lots+1, "both ends are ours")

	next := newNode(t, cfg(), device.QPConfig{})
	id := next.send(n.at(), "let me in")
	var was unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	none := was
	none.Cur = lowestFree(t)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	st := next.status(id, n)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
	require.Equal(t, device.StatusOK, st)
	require.GreaterOrEqual(t, n.port().acceptor.idle.n, lots-4, "no more give way than it needs")

	for _, c := range foes {
		require.NoError(t, c.Close())
	}
	until(t, "their end", func() bool { return n.port().acceptor.idle.n == 0 }, n, next, peer)
	for _, x := range []*node{n, peer, next} {
		require.NoError(t, x.q.Close())
	}
	noGoroutines(t)
}

// issue is a certificate of the company's for an address, valid until a time.
func (c *company) issue(t *testing.T, ip net.IP, until time.Time) Credentials {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		NotAfter: until, IPAddresses: []net.IP{ip}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, c.cert, pub, c.key)
	require.NoError(t, err)
	creds, err := Certificates(&tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: c.pool})
	require.NoError(t, err)
	return creds
}

// TestUntrustedIsWarnedOf: both sides of a connection that TLS refuses warn of it, name each other's
// host, and count it. The side that refused has the reason of x509, the other one TLS's alert.
func TestUntrustedIsWarnedOf(t *testing.T) {
	host := nextHost()
	home := net.IP(host.AsSlice())
	ours, theirs := newCompany(t), newCompany(t)
	later, past := clock.Wall().Add(time.Hour), clock.Wall().Add(-time.Hour)
	for name, c := range map[string]struct {
		dialer, accepter Credentials
		dialed, accepted string // of the warnings
	}{
		"wrong secret": {
			jobCreds(t, tlsSecret), jobCreds(t, []byte("quite another secret")),
			"certificate signed by unknown authority", "remote error: tls",
		},
		"other CA": {
			ours.issue(t, home, later), theirs.issue(t, home, later),
			"certificate signed by unknown authority", "remote error: tls",
		},
		"missing name": {
			ours.issue(t, home, later), ours.issue(t, net.IPv4(192, 0, 2, 1), later),
			"certificate is of another address", "remote error: tls",
		},
		"expired": {
			ours.issue(t, home, later), ours.issue(t, home, past),
			"certificate has expired", "remote error: tls",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var a, b bytes.Buffer
			x := newNode(t, Config{Addr: host, Credentials: c.dialer, Logger: slog.New(slog.NewTextHandler(&a, nil))}, device.QPConfig{})
			y := newNode(t, Config{Addr: host, Credentials: c.accepter, Logger: slog.New(slog.NewTextHandler(&b, nil))}, device.QPConfig{})
			require.Equal(t, device.StatusUnknownPeer, x.status(x.send(y.at(), "hello?"), y))
			until(t, "the accepting side's warning", func() bool { return y.d.Stats().Untrusted > 0 }, x, y)
			require.NotZero(t, x.d.Stats().Untrusted)
			require.Contains(t, a.String(), c.dialed)
			require.Contains(t, a.String(), AddrOf(y.at().gid).String())
			require.Contains(t, b.String(), c.accepted)
			require.Contains(t, b.String(), AddrOf(x.at().gid).String())
			for _, said := range []string{a.String(), b.String()} {
				require.Contains(t, said, "level=WARN msg=\"tcp: no TLS connection\"")
			}
		})
	}
}

// TestPlainTextIsWarnedOf: somebody who speaks another protocol on a port of TLS is warned of, too.
func TestPlainTextIsWarnedOf(t *testing.T) {
	var out bytes.Buffer
	n := newNode(t, Config{Credentials: jobCreds(t, tlsSecret), Logger: slog.New(slog.NewTextHandler(&out, nil))}, device.QPConfig{})
	c, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: AddrOf(n.at().gid).AsSlice(), Port: int(n.at().qpn)})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	require.NoError(t, err)
	until(t, "a warning", func() bool { return n.d.Stats().Untrusted == 1 }, n)
	require.Contains(t, out.String(), "first record does not look like a TLS handshake")
}

// TestTLSErrorsAreWrapped: the stream's error is that of x509 or tls, for errors.As.
func TestTLSErrorsAreWrapped(t *testing.T) {
	home := net.IPv4(127, 0, 0, 1)
	ours, theirs := newCompany(t), newCompany(t)
	good := ours.issue(t, home, clock.Wall().Add(time.Hour))
	refused := func(t *testing.T, other Credentials) (dialed, accepted error) {
		t.Helper()
		x, y := socks(t)
		a, b := tlsEnd(t, x, good, tlsConn(true)), tlsEnd(t, y, other, tlsConn(false))
		a.other = b
		dialed = a.readErr()
		return dialed, b.readErr()
	}
	alerted := func(t *testing.T, err error) {
		t.Helper()
		var alert *net.OpError // as crypto/tls returns what the other side says
		require.ErrorAs(t, err, &alert)
		require.Equal(t, "remote error", alert.Op)
		require.ErrorContains(t, err, "127.0.0.1")
	}
	t.Run("other CA", func(t *testing.T) {
		err, theirErr := refused(t, theirs.issue(t, home, clock.Wall().Add(time.Hour)))
		var unknown x509.UnknownAuthorityError
		require.ErrorAs(t, err, &unknown)
		alerted(t, theirErr)
	})
	t.Run("expired", func(t *testing.T) {
		err, theirErr := refused(t, ours.issue(t, home, clock.Wall().Add(-time.Hour)))
		var invalid x509.CertificateInvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, x509.Expired, invalid.Reason)
		alerted(t, theirErr)
	})
	t.Run("missing name", func(t *testing.T) {
		err, theirErr := refused(t, ours.issue(t, net.IPv4(192, 0, 2, 1), clock.Wall().Add(time.Hour)))
		require.ErrorIs(t, err, jobcert.ErrAddress)
		var name x509.HostnameError
		require.ErrorAs(t, err, &name)
		require.ErrorContains(t, err, "certificate is valid for 192.0.2.1, not 127.0.0.1")
		alerted(t, theirErr)
	})
	t.Run("plain text", func(t *testing.T) {
		x, y := socks(t)
		_, err := y.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		require.NoError(t, err)
		defer y.Close()
		var record tls.RecordHeaderError
		require.ErrorAs(t, tlsEnd(t, x, good, tlsConn(true)).readErr(), &record)
	})
}

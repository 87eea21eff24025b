//go:build linux

package tcp

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/internal/jobcert"
	"github.com/efactor/efactor/runtime/clock"
)

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

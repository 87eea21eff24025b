package jobcert

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

var (
	secret = []byte("0123456789abcdef-of-the-job")

	addrA = wire.MakeRawAddr(mapped(10, 0, 0, 1), 7001, 0x1111)
	addrB = wire.MakeRawAddr(mapped(10, 0, 0, 2), 7002, 0x2222)
)

func mapped(a, b, c, d byte) [16]byte {
	return [16]byte{10: 0xff, 11: 0xff, 12: a, 13: b, 14: c, 15: d}
}

func authority(t *testing.T, secret []byte) *Authority {
	t.Helper()
	a, err := FromSecret(secret)
	require.NoError(t, err)
	return a
}

func credentials(t *testing.T, a *Authority, addr wire.RawAddr) *Credentials {
	t.Helper()
	c, err := a.Credentials(addr)
	require.NoError(t, err)
	return c
}

// outcome is the state of both sides after the handshake and one byte in each
// direction: in TLS 1.3 a client may finish before its certificate was checked.
type outcome struct {
	client, server     error
	clientCS, serverCS tls.ConnectionState
}

// handshake brings both configurations together.
func handshake(t *testing.T, client, server *tls.Config) outcome {
	t.Helper()
	// A pipe of net has no buffer: both sides may be writing.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	a, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	b, err := l.Accept()
	require.NoError(t, err)
	l.Close()
	deadline := clock.Deadline(time.Minute)
	require.NoError(t, a.SetDeadline(deadline))
	require.NoError(t, b.SetDeadline(deadline))
	var o outcome
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer b.Close()
		s := tls.Server(b, server)
		if o.server = s.Handshake(); o.server != nil {
			return
		}
		o.serverCS = s.ConnectionState()
		var one [1]byte
		if _, o.server = s.Read(one[:]); o.server == nil {
			_, o.server = s.Write(one[:])
		}
	}()
	c := tls.Client(a, client)
	if o.client = c.Handshake(); o.client == nil {
		o.clientCS = c.ConnectionState()
		var one [1]byte
		if _, o.client = c.Write(one[:]); o.client == nil {
			_, o.client = c.Read(one[:])
		}
	}
	a.Close()
	<-done
	return o
}

func requireThrough(t *testing.T, o outcome) {
	t.Helper()
	require.NoError(t, o.client)
	require.NoError(t, o.server)
}

// forge is a configuration with a leaf that change has altered, signed by a; a nil
// authority: by itself.
func forge(t *testing.T, a *Authority, addr wire.RawAddr, change func(*x509.Certificate)) *tls.Config {
	t.Helper()
	gid := addr.GID()
	template := leafTemplate()
	template.IPAddresses = []net.IP{gid[:]}
	template.URIs = []*url.URL{addrURL(addr)}
	if change != nil {
		change(template)
	}
	var cert tls.Certificate
	var err error
	if a != nil {
		cert, err = a.issue(template)
		require.NoError(t, err)
	} else {
		pub, key, err := ed25519.GenerateKey(rand.Reader)
		require.NoError(t, err)
		der, err := x509.CreateCertificate(rand.Reader, template, template, pub, key)
		require.NoError(t, err)
		cert = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	}
	return bare(&tls.Config{Certificates: []tls.Certificate{cert}})
}

// bare is a configuration that asks for nothing, as an attacker's would.
func bare(cfg *tls.Config) *tls.Config {
	cfg.InsecureSkipVerify, cfg.ClientAuth = true, tls.RequestClientCert
	if cfg.NextProtos == nil {
		cfg.NextProtos = []string{protocol}
	}
	return cfg
}

package jobcert

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSecretLength(t *testing.T) {
	for n := range MinSecret {
		_, err := FromSecret(secret[:n])
		require.ErrorIs(t, err, ErrSecret, "%d bytes", n)
	}
	_, err := FromSecret(secret[:MinSecret])
	require.NoError(t, err)
}

// Hosts that never spoke must arrive at the same authority.
func TestAuthorityIsDeterministic(t *testing.T) {
	a, b := authority(t, secret), authority(t, secret)
	require.Equal(t, a.cert.Raw, b.cert.Raw)
	require.NotEqual(t, a.cert.Raw, authority(t, secret[1:]).cert.Raw)
	require.Equal(t, 1970, a.cert.NotBefore.Year())
	require.Equal(t, 9999, a.cert.NotAfter.Year())
	// A change of these bytes cuts processes of two releases off from one another.
	require.Equal(t, "xGW4PR/oJzR4toF2", string(fingerprint(a)))
}

func TestKeysDiffer(t *testing.T) {
	a := authority(t, secret)
	x, y := credentials(t, a, addrA), credentials(t, a, addrA)
	require.NotEqual(t, x.base.Certificates[0].PrivateKey, y.base.Certificates[0].PrivateKey)
}

func TestQueuePairsOfAJob(t *testing.T) {
	for name, c := range map[string]struct{ a, b wire.RawAddr }{
		"IPv4":      {addrA, addrB},
		"IPv6":      {wire.MakeRawAddr([16]byte{0x20, 1, 15: 1}, 1, 0), wire.MakeRawAddr([16]byte{0x20, 1, 15: 2}, 65535, 1<<32-1)},
		"loopback":  {wire.MakeRawAddr([16]byte{15: 1}, 9, 8), wire.MakeRawAddr(mapped(127, 0, 0, 1), 9, 8)},
		"same host": {addrA, wire.MakeRawAddr(addrA.GID(), 7009, 5)},
	} {
		t.Run(name, func(t *testing.T) {
			a := credentials(t, authority(t, secret), c.a)
			b := credentials(t, authority(t, secret), c.b)
			o := handshake(t, a.Client(c.b.GID(), c.b.QPN()), b.Server())
			requireThrough(t, o)
			require.EqualValues(t, tls.VersionTLS13, o.clientCS.Version)
			require.NoError(t, a.Verify(o.clientCS, c.b))
			require.ErrorIs(t, a.Verify(o.clientCS, wire.MakeRawAddr(c.b.GID(), c.b.QPN(), c.b.ConnID()+1)), ErrAddress,
				"who dials does not know the connid beforehand")
			require.NoError(t, b.Verify(o.serverCS, c.a))
			// No other number is accepted.
			for _, lie := range []wire.RawAddr{
				wire.MakeRawAddr(c.b.GID(), c.a.QPN(), c.a.ConnID()),
				wire.MakeRawAddr(c.a.GID(), c.a.QPN()+1, c.a.ConnID()),
				wire.MakeRawAddr(c.a.GID(), c.a.QPN(), c.a.ConnID()+1),
				{},
			} {
				if lie != c.a {
					require.ErrorIs(t, b.Verify(o.serverCS, lie), ErrAddress, "%v", lie)
				}
			}
			padded := c.a
			padded[31] = 1
			require.ErrorIs(t, b.Verify(o.serverCS, padded), ErrAddress)
		})
	}
}

// An attacker in either place is refused by an honest queue pair.
func TestRefusals(t *testing.T) {
	job := authority(t, secret)
	other := authority(t, []byte("another secret, just as long"))
	for _, c := range []struct {
		name   string
		forged *tls.Config // claims to be addrB
		asWhat bool        // as the server only the address is known at once
		want   error       // of the honest client
	}{
		{"wrong secret", forge(t, other, addrB, nil), true, ErrChain},
		{"self-signed", forge(t, nil, addrB, nil), true, ErrChain},
		{"expired", forge(t, job, addrB, func(c *x509.Certificate) { c.NotAfter = time.Unix(86400, 0) }), true, ErrChain},
		{"not yet valid", forge(t, job, addrB, func(c *x509.Certificate) { c.NotBefore = notAfter.AddDate(-1, 0, 0) }), true, ErrChain},
		{"for other purposes", forge(t, job, addrB, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning} }), true, ErrChain},
		{"of the launch", forge(t, job, addrB, func(c *x509.Certificate) { c.URIs, c.IPAddresses, c.DNSNames = nil, nil, []string{launchName} }), false, ErrAddress},
		{"another address", forge(t, job, addrA, nil), false, ErrAddress},
		{"another port", forge(t, job, wire.MakeRawAddr(addrB.GID(), 7003, addrB.ConnID()), nil), false, ErrAddress},
		{"another host", forge(t, job, wire.MakeRawAddr(addrA.GID(), addrB.QPN(), addrB.ConnID()), nil), false, ErrAddress},
		{"an address in another form", forge(t, job, addrB, func(c *x509.Certificate) {
			c.URIs[0].Opaque = strings.Replace(c.URIs[0].Opaque, ":7002:", ":07002:", 1)
		}), false, ErrAddress},
		{"without an address", forge(t, job, addrB, func(c *x509.Certificate) { c.URIs = nil }), false, ErrAddress},
	} {
		t.Run(c.name, func(t *testing.T) {
			honest := credentials(t, authority(t, secret), addrA)
			o := handshake(t, honest.Client(addrB.GID(), addrB.QPN()), c.forged)
			require.ErrorIs(t, o.client, c.want)

			o = handshake(t, c.forged, honest.Server())
			if c.asWhat {
				require.Error(t, o.server)
				require.Error(t, o.client, "who was refused notices")
				return
			}
			require.NoError(t, o.server, "of the job, so the preamble decides")
			require.ErrorIs(t, honest.Verify(o.serverCS, addrB), c.want)
		})
	}
}

// Rules that hold for every authority.
func TestWeakConnections(t *testing.T) {
	job := authority(t, secret)
	honest := credentials(t, job, addrA)
	with := func(change func(*tls.Config)) *tls.Config {
		cfg := forge(t, job, addrB, nil)
		change(cfg)
		return cfg
	}
	for name, cfg := range map[string]*tls.Config{
		"TLS 1.2":           with(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }),
		"no certificate":    with(func(c *tls.Config) { c.Certificates = nil }),
		"other protocol":    with(func(c *tls.Config) { c.NextProtos = []string{"h2"} }),
		"launch's protocol": with(func(c *tls.Config) { c.NextProtos = []string{launchProtocol} }),
		"no protocol":       with(func(c *tls.Config) { c.NextProtos = []string{} }),
	} {
		t.Run(name, func(t *testing.T) {
			o := handshake(t, cfg, honest.Server())
			assert.Error(t, o.server, "as client")
			o = handshake(t, honest.Client(addrB.GID(), addrB.QPN()), cfg)
			assert.Error(t, o.client, "as server")
		})
	}
}

// Verify does not rely on the configuration that made the connection.
func TestVerifyAlone(t *testing.T) {
	job := authority(t, secret)
	honest := credentials(t, job, addrA)
	good := handshake(t, forge(t, job, addrB, nil), forge(t, job, addrA, nil)).serverCS
	require.NoError(t, honest.Verify(good, addrB))
	for name, c := range map[string]struct {
		change func(*tls.ConnectionState)
		want   error
	}{
		"not over":       {func(cs *tls.ConnectionState) { cs.HandshakeComplete = false }, ErrWeak},
		"TLS 1.2":        {func(cs *tls.ConnectionState) { cs.Version = tls.VersionTLS12 }, ErrWeak},
		"resumed":        {func(cs *tls.ConnectionState) { cs.DidResume = true }, ErrWeak},
		"protocol":       {func(cs *tls.ConnectionState) { cs.NegotiatedProtocol = "" }, ErrWeak},
		"no certificate": {func(cs *tls.ConnectionState) { cs.PeerCertificates = nil }, ErrWeak},
		"other chain": {func(cs *tls.ConnectionState) {
			cs.PeerCertificates = []*x509.Certificate{authority(t, secret[1:]).cert}
		}, ErrChain},
		"the authority itself": {func(cs *tls.ConnectionState) {
			cs.PeerCertificates = []*x509.Certificate{job.cert}
		}, ErrAddress},
	} {
		t.Run(name, func(t *testing.T) {
			cs := good
			c.change(&cs)
			require.ErrorIs(t, honest.Verify(cs, addrB), c.want)
		})
	}
	require.ErrorIs(t, honest.Verify(tls.ConnectionState{}, addrB), ErrWeak)
}

// Neither tickets nor anything else brings a session back.
func TestNoResumption(t *testing.T) {
	job := authority(t, secret)
	server := credentials(t, job, addrA).Server()
	require.True(t, server.SessionTicketsDisabled)
	cfg := forge(t, job, addrB, nil)
	cfg.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	cfg.ServerName = "x"
	for range 2 {
		o := handshake(t, cfg, server)
		requireThrough(t, o)
		require.False(t, o.clientCS.DidResume)
	}
}

func TestLaunch(t *testing.T) {
	server, _, err := authority(t, secret).Launch()
	require.NoError(t, err)
	_, client, err := authority(t, secret).Launch()
	require.NoError(t, err)
	requireThrough(t, handshake(t, client, server))

	wrongServer, wrongClient, err := authority(t, secret[1:]).Launch()
	require.NoError(t, err)
	qp := credentials(t, authority(t, secret), addrA)
	noCert := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{launchProtocol}}
	old := client.Clone()
	old.MinVersion, old.MaxVersion = 0, tls.VersionTLS12
	posing := forge(t, authority(t, secret), addrA, nil) // a queue pair that names our protocol
	posing.NextProtos = []string{launchProtocol}
	for name, cfg := range map[string]*tls.Config{
		"wrong secret": wrongClient, "queue pair": qp.Client(addrB.GID(), addrB.QPN()), "no certificate": noCert, "TLS 1.2": old, "posing": posing,
	} {
		o := handshake(t, cfg, server)
		assert.Error(t, o.server, name)
	}
	for name, cfg := range map[string]*tls.Config{"wrong secret": wrongServer, "queue pair": qp.Server(), "posing": posing} {
		o := handshake(t, client, cfg)
		assert.Error(t, o.client, name)
	}
}

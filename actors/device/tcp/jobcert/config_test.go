package jobcert

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/wire"
)

func fingerprint(a *Authority) []byte {
	sum := sha256.Sum256(a.cert.Raw)
	return base64.StdEncoding.AppendEncode(nil, sum[:12])
}

// companyConfig is a configuration of a caller with an authority of its own.
func companyConfig(t *testing.T, company *Authority, change func(*x509.Certificate)) *tls.Config {
	t.Helper()
	template := leafTemplate()
	change(template)
	cert, err := company.issue(template)
	require.NoError(t, err)
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: company.pool}
}

func ips(ips ...net.IP) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.IPAddresses = ips }
}

func uris(addrs ...wire.RawAddr) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		for _, a := range addrs {
			c.URIs = append(c.URIs, addrURL(a))
		}
	}
}

func TestCallersCertificates(t *testing.T) {
	company := authority(t, []byte("the company's own authority"))
	stranger := authority(t, []byte("some other company's authority"))
	dialer, err := FromConfig(companyConfig(t, company, ips(net.IPv4(10, 0, 0, 1))))
	require.NoError(t, err)
	spiffe := &url.URL{Scheme: "spiffe", Host: "example.org", Path: "/job"}
	for _, c := range []struct {
		name   string
		signer *Authority
		leaf   func(*x509.Certificate)
		want   error
	}{
		{"IP", company, ips(net.IPv4(10, 0, 0, 2)), nil},
		{"one of several", company, ips(net.IPv4(10, 9, 9, 9), net.IPv4(10, 0, 0, 2)), nil},
		{"URI", company, uris(addrB), nil},
		{"one of several URIs", company, uris(addrA, addrB), nil},
		{"IP and a foreign URI", company, func(c *x509.Certificate) {
			c.IPAddresses, c.URIs = []net.IP{net.IPv4(10, 0, 0, 2)}, []*url.URL{spiffe}
		}, nil},
		{"other IP", company, ips(net.IPv4(10, 0, 0, 3)), ErrAddress},
		{"other URI", company, uris(addrA), ErrAddress},
		{"IP, but a URI of another", company, func(c *x509.Certificate) {
			ips(net.IPv4(10, 0, 0, 2))(c)
			uris(addrA)(c)
		}, ErrAddress},
		{"DNS name alone", company, func(c *x509.Certificate) { c.DNSNames = []string{"b.example.org", "10.0.0.2"} }, ErrAddress},
		{"no names", company, func(*x509.Certificate) {}, ErrAddress},
		{"other authority", stranger, ips(net.IPv4(10, 0, 0, 2)), ErrChain},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := companyConfig(t, c.signer, c.leaf)
			cfg.RootCAs = company.pool
			b, err := FromConfig(cfg)
			require.NoError(t, err)
			o := handshake(t, dialer.Client(addrB.GID(), addrB.QPN()), b.Server())
			if c.want != nil {
				require.ErrorIs(t, o.client, c.want)
			} else {
				requireThrough(t, o)
				require.NoError(t, b.Verify(o.serverCS, addrA))
				require.ErrorIs(t, b.Verify(o.serverCS, addrB), ErrAddress)
			}
			// The other way round the claim comes later.
			o = handshake(t, b.Client(addrA.GID(), addrA.QPN()), dialer.Server())
			if errors.Is(c.want, ErrChain) {
				require.Error(t, o.server)
				return
			}
			requireThrough(t, o)
			if c.want != nil {
				require.ErrorIs(t, dialer.Verify(o.serverCS, addrB), c.want)
			} else {
				require.NoError(t, dialer.Verify(o.serverCS, addrB))
			}
		})
	}
}

func TestCallersConfigs(t *testing.T) {
	company := authority(t, []byte("the company's own authority"))
	good := companyConfig(t, company, ips(net.IPv4(10, 0, 0, 1)))
	for name, change := range map[string]func(*tls.Config){
		"no certificate":     func(c *tls.Config) { c.Certificates = nil },
		"only for servers":   func(c *tls.Config) { c.Certificates, c.GetCertificate = nil, fail },
		"InsecureSkipVerify": func(c *tls.Config) { c.InsecureSkipVerify = true },
		"TLS 1.2 at most":    func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 },
		"no authorities":     func(c *tls.Config) { c.RootCAs = nil },
		"two authorities":    func(c *tls.Config) { c.ClientCAs = authority(t, secret).pool },
		"configs per request": func(c *tls.Config) {
			c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil }
		},
	} {
		cfg := good.Clone()
		change(cfg)
		_, err := FromConfig(cfg)
		require.ErrorIs(t, err, ErrConfig, name)
	}
	_, err := FromConfig(nil)
	require.ErrorIs(t, err, ErrConfig)

	weak := good.Clone()
	weak.MinVersion, weak.ClientAuth, weak.RootCAs, weak.ClientCAs = tls.VersionTLS12, tls.NoClientCert, nil, company.pool
	weak.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	c, err := FromConfig(weak)
	require.NoError(t, err)
	require.EqualValues(t, tls.VersionTLS12, weak.MinVersion, "the caller's is left alone")
	for _, cfg := range []*tls.Config{c.Server(), c.Client(addrB.GID(), addrB.QPN())} {
		require.EqualValues(t, tls.VersionTLS13, cfg.MinVersion)
		require.True(t, cfg.SessionTicketsDisabled)
		require.Nil(t, cfg.ClientSessionCache)
	}
	require.Equal(t, tls.RequireAndVerifyClientCert, c.Server().ClientAuth)
}

func fail(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("none") }

// The caller may add rules of its own.
func TestCallersRule(t *testing.T) {
	company := authority(t, []byte("the company's own authority"))
	a, err := FromConfig(companyConfig(t, company, ips(net.IPv4(10, 0, 0, 1))))
	require.NoError(t, err)
	cfg := companyConfig(t, company, ips(net.IPv4(10, 0, 0, 2)))
	revoked := errors.New("revoked")
	cfg.VerifyConnection = func(tls.ConnectionState) error { return revoked }
	b, err := FromConfig(cfg)
	require.NoError(t, err)
	require.ErrorIs(t, handshake(t, a.Client(addrB.GID(), addrB.QPN()), b.Server()).server, revoked)
	require.ErrorIs(t, handshake(t, b.Client(addrA.GID(), addrA.QPN()), a.Server()).client, revoked)
}

// A caller's rule that reads verified chains, to check revocation for example, gets
// them in both directions.
func TestCallersRuleSeesChains(t *testing.T) {
	company := authority(t, []byte("the company's own authority"))
	a, err := FromConfig(companyConfig(t, company, ips(net.IPv4(10, 0, 0, 1))))
	require.NoError(t, err)
	revoked := errors.New("revoked")
	look := func(chains [][]*x509.Certificate) error {
		for _, chain := range chains {
			if chain[0].IPAddresses[0].Equal(net.IPv4(10, 0, 0, 1)) {
				return revoked
			}
		}
		return nil
	}
	for name, rule := range map[string]func(*tls.Config){
		"certificate": func(c *tls.Config) {
			c.VerifyPeerCertificate = func(raw [][]byte, chains [][]*x509.Certificate) error {
				if len(raw) == 0 {
					return nil
				}
				return look(chains)
			}
		},
		"connection": func(c *tls.Config) {
			c.VerifyConnection = func(cs tls.ConnectionState) error { return look(cs.VerifiedChains) }
		},
	} {
		cfg := companyConfig(t, company, ips(net.IPv4(10, 0, 0, 2)))
		rule(cfg)
		b, err := FromConfig(cfg)
		require.NoError(t, err)
		require.ErrorIs(t, handshake(t, a.Client(addrB.GID(), addrB.QPN()), b.Server()).server, revoked, name)
		require.ErrorIs(t, handshake(t, b.Client(addrA.GID(), addrA.QPN()), a.Server()).client, revoked, name)
	}
}

func TestAddrURI(t *testing.T) {
	require.Equal(t, "efa+tcp:[::ffff:10.0.0.1]:7001:4369", AddrURI(addrA))
	u, err := url.Parse(AddrURI(addrA))
	require.NoError(t, err)
	require.Equal(t, AddrURI(addrA), u.String())
}

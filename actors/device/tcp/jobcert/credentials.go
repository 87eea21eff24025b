package jobcert

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/efactor/efactor/wire"
)

// protocol is what both sides must name in ALPN (RFC 7301).
const protocol = "efactor-tcp/1"

// ErrConfig is the error of a caller's configuration that would weaken the rules, or
// cannot work.
var ErrConfig = errors.New("jobcert: bad TLS configuration")

// Credentials are what a queue pair presents and accepts. They are immutable, and the
// configurations that they return are new ones.
type Credentials struct {
	base  *tls.Config
	roots *x509.CertPool // for the other side, in either direction
	job   bool           // only the whole raw address is accepted
	also  func(tls.ConnectionState) error
}

// Credentials makes a key and a certificate for the queue pair of that raw address.
func (a *Authority) Credentials(addr wire.RawAddr) (*Credentials, error) {
	gid := addr.GID()
	template := leafTemplate()
	template.IPAddresses = []net.IP{gid[:]}
	template.URIs = []*url.URL{addrURL(addr)}
	cert, err := a.issue(template)
	if err != nil {
		return nil, err
	}
	return &Credentials{base: strict(&tls.Config{Certificates: []tls.Certificate{cert}}, protocol), roots: a.pool, job: true}, nil
}

// FromConfig makes Credentials of the caller's certificates. cfg must have a certificate,
// RootCAs or ClientCAs (one stands for both), and nothing that loosens the rules; its
// VerifyPeerCertificate and VerifyConnection are called as well. It is not changed or kept.
func FromConfig(cfg *tls.Config) (*Credentials, error) {
	switch {
	case cfg == nil:
		return nil, fmt.Errorf("%w: none given", ErrConfig)
	case len(cfg.Certificates) == 0 && (cfg.GetCertificate == nil || cfg.GetClientCertificate == nil):
		return nil, fmt.Errorf("%w: no certificate; both sides show one", ErrConfig)
	case cfg.InsecureSkipVerify:
		return nil, fmt.Errorf("%w: InsecureSkipVerify", ErrConfig)
	case cfg.GetConfigForClient != nil:
		return nil, fmt.Errorf("%w: GetConfigForClient could replace the rules", ErrConfig)
	case cfg.MaxVersion != 0 && cfg.MaxVersion < tls.VersionTLS13:
		return nil, fmt.Errorf("%w: MaxVersion below TLS 1.3", ErrConfig)
	case cfg.RootCAs == nil && cfg.ClientCAs == nil:
		return nil, fmt.Errorf("%w: neither RootCAs nor ClientCAs; the system's authorities know no queue pairs", ErrConfig)
	case cfg.RootCAs != nil && cfg.ClientCAs != nil && !cfg.RootCAs.Equal(cfg.ClientCAs):
		return nil, fmt.Errorf("%w: RootCAs and ClientCAs differ, but either side may dial", ErrConfig)
	}
	roots := cfg.RootCAs
	if roots == nil {
		roots = cfg.ClientCAs
	}
	return &Credentials{base: strict(cfg, protocol), roots: roots.Clone(), also: cfg.VerifyConnection}, nil
}

// strict is a copy of cfg with the rules that hold always.
func strict(cfg *tls.Config, alpn string) *tls.Config {
	cfg = cfg.Clone()
	cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS13, 0
	cfg.NextProtos = []string{alpn}
	cfg.SessionTicketsDisabled, cfg.ClientSessionCache = true, nil
	cfg.ServerName = ""
	cfg.DynamicRecordSizingDisabled = true // for readers that show half a page; ours wait for whole frames
	return cfg
}

// Server is the configuration of the accepting side. The dialer's address is known
// from the preamble: then call [Credentials.Verify].
func (c *Credentials) Server() *tls.Config {
	cfg := c.base.Clone()
	cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, c.roots
	cfg.VerifyConnection = func(cs tls.ConnectionState) error {
		if _, err := check(cs, protocol, c.roots, x509.ExtKeyUsageClientAuth); err != nil || c.also == nil {
			return err
		}
		return c.also(cs)
	}
	return cfg
}

// Client is the configuration for dialing a queue pair. The handshake fails unless
// that queue pair answers, with any connid; when its connid is known, call
// [Credentials.Verify].
func (c *Credentials) Client(gid [16]byte, qpn uint16) *tls.Config {
	remote := wire.MakeRawAddr(gid, qpn, 0)
	cfg := c.base.Clone()
	// crypto/tls can look for one DNS name or IP address, and not for a URI. So this does
	// the whole verification, chain included, in the handshake. The caller's rules
	// follow; otherwise they would be shown no chains.
	certs := cfg.VerifyPeerCertificate
	cfg.InsecureSkipVerify, cfg.VerifyPeerCertificate = true, nil
	cfg.VerifyConnection = func(cs tls.ConnectionState) (err error) {
		if cs.VerifiedChains, err = check(cs, protocol, c.roots, x509.ExtKeyUsageServerAuth); err != nil {
			return err
		}
		if err = c.names(cs.PeerCertificates[0], remote, true); err == nil && certs != nil {
			err = certs(rawCerts(cs), cs.VerifiedChains)
		}
		if err == nil && c.also != nil {
			err = c.also(cs)
		}
		return err
	}
	return cfg
}

// rawCerts returns the certificates of the other side.
func rawCerts(cs tls.ConnectionState) (raw [][]byte) {
	for _, cert := range cs.PeerCertificates {
		raw = append(raw, cert.Raw)
	}
	return raw
}

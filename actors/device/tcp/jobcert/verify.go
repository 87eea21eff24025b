package jobcert

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/efactor/efactor/wire"
)

// Errors of a connection that is not accepted.
var (
	ErrWeak    = errors.New("jobcert: not a mutual TLS 1.3 connection of this protocol")
	ErrChain   = errors.New("jobcert: certificate is not of the authority")
	ErrAddress = errors.New("jobcert: certificate is of another address")
)

const (
	uriScheme  = "efa+tcp"
	textScheme = "fi_addr_efa://" // of wire.RawAddr
)

// AddrURI is the text of a raw address in a certificate, efa+tcp:[gid]:qpn:connid. It
// has no authority part, since a URI cannot have two numbers after a host, and
// parsers of certificates check that.
func AddrURI(addr wire.RawAddr) string { return addrURL(addr).String() }

func addrURL(addr wire.RawAddr) *url.URL {
	return &url.URL{Scheme: uriScheme, Opaque: strings.TrimPrefix(addr.String(), textScheme)}
}

// Verify returns an error unless the other side of a finished handshake is the queue
// pair of the raw address that it claims. It checks everything anew, and so does not
// depend on which of the configurations made the connection.
func (c *Credentials) Verify(cs tls.ConnectionState, claimed wire.RawAddr) error {
	if !cs.HandshakeComplete {
		return fmt.Errorf("%w: handshake is not over", ErrWeak)
	}
	if _, err := check(cs, protocol, c.roots, x509.ExtKeyUsageAny); err != nil {
		return err
	}
	return c.names(cs.PeerCertificates[0], claimed, false)
}

// check applies the rules for every connection, without regard to the other side's address. It
// returns the chains from the leaf to the roots.
func check(cs tls.ConnectionState, alpn string, roots *x509.CertPool, usage x509.ExtKeyUsage) ([][]*x509.Certificate, error) {
	switch {
	case cs.Version < tls.VersionTLS13:
		return nil, fmt.Errorf("%w: %s", ErrWeak, tls.VersionName(cs.Version))
	case cs.DidResume:
		return nil, fmt.Errorf("%w: resumed", ErrWeak)
	case cs.NegotiatedProtocol != alpn:
		return nil, fmt.Errorf("%w: protocol %q", ErrWeak, cs.NegotiatedProtocol)
	case len(cs.PeerCertificates) == 0:
		return nil, fmt.Errorf("%w: no certificate", ErrWeak)
	}
	between := x509.NewCertPool()
	for _, cert := range cs.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	chains, err := cs.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrChain, err)
	}
	return chains, nil
}

// names returns an error unless the leaf is that of addr. When we dial, the connid is
// not known yet: then any connid is accepted.
func (c *Credentials) names(leaf *x509.Certificate, addr wire.RawAddr, anyConnID bool) error {
	gid := addr.GID()
	if addr != wire.MakeRawAddr(gid, addr.QPN(), addr.ConnID()) { // bytes that the text leaves out
		return fmt.Errorf("%w: %v has more than the certificate can say", ErrAddress, addr)
	}
	stated := 0
	for _, u := range leaf.URIs {
		if u.Scheme != uriScheme {
			continue
		}
		stated++
		its, err := wire.ParseRawAddr(textScheme + u.Opaque)
		if err != nil || u.String() != AddrURI(its) {
			continue
		}
		if its == addr || anyConnID && its.GID() == gid && its.QPN() == addr.QPN() {
			return nil
		}
	}
	if c.job || stated > 0 { // a certificate with addresses is valid for those only
		return fmt.Errorf("%w: not %v", ErrAddress, addr)
	}
	for _, ip := range leaf.IPAddresses {
		if ip.Equal(net.IP(gid[:])) {
			return nil
		}
	}
	return fmt.Errorf("%w: neither %v nor its IP address: %w", ErrAddress, addr,
		x509.HostnameError{Certificate: leaf, Host: net.IP(gid[:]).String()})
}

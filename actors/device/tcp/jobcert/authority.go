package jobcert

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// MinSecret is the length in bytes of the shortest job secret.
const MinSecret = 16

// derivation is the purpose of the key in HKDF. Another form of certificates needs
// another text, so that old and new processes cannot half understand each other.
const derivation = "efactor job certificate authority, ed25519, version 1"

// ErrSecret is the error of a job secret that is too short.
var ErrSecret = errors.New("jobcert: job secret is too short")

// The validity of all certificates of a job: see the package comment.
var (
	notBefore = time.Unix(0, 0).UTC()
	notAfter  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// Authority is the certificate authority of a job. It is immutable.
type Authority struct {
	cert *x509.Certificate
	key  ed25519.PrivateKey
	pool *x509.CertPool
}

// FromSecret derives the authority that all holders of the secret share. The secret
// must be random and at least MinSecret bytes long; it is not kept.
func FromSecret(secret []byte) (*Authority, error) {
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("%w: %d bytes, at least %d", ErrSecret, len(secret), MinSecret)
	}
	seed, err := hkdf.Key(sha256.New, secret, nil, derivation, ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("jobcert: derive: %w", err)
	}
	key := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "efactor job"},
		NotBefore:             notBefore,
		NotAfter:              notAfter,
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	// Ed25519 signs without randomness (RFC 8032, 5.1.6), so the certificate is the same everywhere.
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("jobcert: authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("jobcert: authority: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &Authority{cert: cert, key: key, pool: pool}, nil
}

// issue makes a key and signs a leaf for it; names are those of the template.
func (a *Authority) issue(template *x509.Certificate) (tls.Certificate, error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("jobcert: key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, pub, a.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("jobcert: sign: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("jobcert: sign: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// leafTemplate is a leaf without names.
func leafTemplate() *x509.Certificate {
	return &x509.Certificate{ // CreateCertificate chooses the serial number
		Subject:               pkix.Name{CommonName: "efactor"},
		NotBefore:             notBefore,
		NotAfter:              notAfter,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
}

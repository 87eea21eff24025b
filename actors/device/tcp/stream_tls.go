package tcp

import (
	"crypto/tls"
	"sync"

	"github.com/efactor/efactor/internal/jobcert"
	"github.com/efactor/efactor/wire"
)

// secured are Credentials by certificates: streams over mutual TLS 1.3.
type secured struct {
	authority *jobcert.Authority // nil: own
	own       *jobcert.Credentials

	mu   sync.Mutex
	byQP map[wire.RawAddr]*jobcert.Credentials // of the authority
}

// JobSecret secures connections by certificates that processes with the same secret
// issue to themselves: it must be random, and at least jobcert.MinSecret bytes long.
func JobSecret(secret []byte) (Credentials, error) {
	a, err := jobcert.FromSecret(secret)
	if err != nil {
		return nil, err
	}
	return &secured{authority: a, byQP: map[wire.RawAddr]*jobcert.Credentials{}}, nil
}

// Certificates secures connections by certificates of the caller's: see
// jobcert.FromConfig. That of the other side must have the IP address that is its
// GID, or the URI of its raw address (jobcert.AddrURI).
func Certificates(cfg *tls.Config) (Credentials, error) {
	own, err := jobcert.FromConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &secured{own: own}, nil
}

// of returns the credentials of one of our queue pairs. Goroutines of streams call it,
// never a shard.
func (s *secured) of(self wire.RawAddr) (*jobcert.Credentials, error) {
	if s.authority == nil {
		return s.own, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.byQP[self]; c != nil {
		return c, nil
	}
	c, err := s.authority.Credentials(self)
	if err != nil {
		return nil, err
	}
	if len(s.byQP) >= maxQP { // mostly of queue pairs that are gone
		clear(s.byQP)
	}
	s.byQP[self] = c
	return c, nil
}

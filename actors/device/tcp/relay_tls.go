//go:build !linux || netpoll

package tcp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/internal/jobcert"
	"github.com/efactor/efactor/wire"
)

// errBrokenOff: the connection ended without a close notification. That is not io.EOF,
// by which the other side says that it has no more.
var errBrokenOff = fmt.Errorf("tcp: connection ended without a close notification of TLS: %w", connReset)

// wrap implements Credentials.
func (s *secured) wrap(sock socket, c conn) (stream, error) { return newRelay(sock.c, c, s), nil }

// session13 is TLS 1.3 of a relay, whose goroutines call its methods, but vouch, which is the
// shard's.
type session13 struct {
	of      *secured
	records records
	conn    *tls.Conn
	cred    *jobcert.Credentials
}

// shake makes the handshake. The shard gives one up that takes too long, by closing the socket.
func (t *session13) shake(c *conn) error {
	cred, err := t.of.of(c.self)
	if err != nil {
		return err
	}
	t.cred = cred
	if c.dialed {
		t.conn = tls.Client(&t.records, cred.Client(c.peer, c.peerQPN))
	} else {
		t.conn = tls.Server(&t.records, cred.Server())
	}
	switch err := t.conn.Handshake(); {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return errBrokenOff
	default:
		return fmt.Errorf("tcp: TLS handshake with %v: %w", AddrOf(c.peer), err)
	}
}

func (t *session13) vouch(who wire.RawAddr) error {
	if err := t.cred.Verify(t.conn.ConnectionState(), who); err != nil {
		return fmt.Errorf("%w: %w", errImpostor, err)
	}
	return nil
}

func (t *session13) Read(p []byte) (int, error) {
	n, err := t.conn.Read(p)
	if errors.Is(err, io.EOF) && t.records.eof.Load() || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errBrokenOff
	}
	return n, err
}

// Write sends all records of p in one call.
func (t *session13) Write(p []byte) (int, error) {
	t.records.gather()
	n, err := t.conn.Write(p)
	if flushed := t.records.flush(); err == nil {
		err = flushed
	}
	return n, err
}

// records is the socket as crypto/tls needs it. It gathers the records of one Write, and
// remembers the connection's end, which crypto/tls may call an orderly one (RFC 8446, 6.1).
type records struct {
	net.Conn
	eof atomic.Bool

	mu        sync.Mutex
	gathering bool
	buf       []byte
}

func (s *records) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if errors.Is(err, io.EOF) {
		s.eof.Store(true)
	}
	return n, err
}

// Write is called by both goroutines: the one that reads answers TLS's own requests.
func (s *records) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gathering {
		s.buf = append(s.buf, p...)
		return len(p), nil
	}
	return s.Conn.Write(p)
}

func (s *records) gather() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gathering = true
}

func (s *records) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gathering = false
	if len(s.buf) == 0 {
		return nil
	}
	_, err := s.Conn.Write(s.buf)
	s.buf = s.buf[:0]
	return err
}

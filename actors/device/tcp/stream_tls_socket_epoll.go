//go:build linux && !netpoll

package tcp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// errBrokenOff: the connection ended without a close notification. That is not io.EOF,
// by which the other side says that it has no more.
var errBrokenOff = fmt.Errorf("tcp: connection ended without a close notification of TLS: %w", unix.ECONNRESET)

// errAgain is a timeout to crypto/tls (a net.Error that is temporary): it keeps its
// part of a record.
var errAgain error = unix.EAGAIN

// errHeld: the other side requests answers and does not read them.
var errHeld = errors.New("tcp: too much is held back")

// maxHeld bounds the output that waits for room in the socket: a chunk with its
// overhead, and a few answers to requests of TLS itself.
const maxHeld = 4 * tlsChunk

// tlsSocket is the socket as crypto/tls needs it. During the handshake another goroutine
// calls Read and Write, which leave the socket alone; afterwards the shard does, and they
// never wait.
type tlsSocket struct {
	fd    int
	shake *handshake // nil: it is over
	early []byte     // came with the handshake's last bytes
	held  []byte     // written, and not taken by the socket yet
	eof   bool       // the connection is over; crypto/tls may call that an orderly end (RFC 8446, 6.1)

	rv [2]unix.Iovec
	wv [maxIovecs]unix.Iovec
	v  [1][]byte
}

func (s *tlsSocket) Read(p []byte) (int, error) {
	if s.shake != nil {
		n, err := s.shake.read(p)
		s.eof = s.eof || errors.Is(err, io.EOF)
		return n, err
	}
	if len(s.early) > 0 {
		n := copy(p, s.early)
		s.early = s.early[n:]
		return n, nil
	}
	n, err := rawRead(s.fd, &s.rv, p, nil)
	switch {
	case err == unix.EAGAIN: //nolint:errorlint // a bare errno, on the hot path
		return 0, errAgain
	case err != nil:
		return 0, err
	case n == 0:
		s.eof = true
		return 0, io.EOF
	}
	return n, nil
}

func (s *tlsSocket) Write(p []byte) (int, error) {
	if s.shake != nil {
		return s.shake.write(p)
	}
	if len(s.held)+len(p) > maxHeld {
		return 0, errHeld
	}
	s.held = append(s.held, p...)
	return len(p), nil
}

// flush writes held output, as much as the socket takes.
func (s *tlsSocket) flush() error {
	for len(s.held) > 0 {
		s.v[0] = s.held
		n, err := rawWrite(s.fd, &s.wv, s.v[:])
		s.v[0] = nil
		if err == unix.EAGAIN { //nolint:errorlint // a bare errno, on the hot path
			return nil
		}
		if err != nil {
			return err
		}
		s.held = s.held[:copy(s.held, s.held[n:])]
	}
	return nil
}

// Close and the deadlines implement net.Conn for crypto/tls, which does not need
// them here.
func (*tlsSocket) Close() error                     { return nil }
func (*tlsSocket) LocalAddr() net.Addr              { return nil }
func (*tlsSocket) RemoteAddr() net.Addr             { return nil }
func (*tlsSocket) SetDeadline(time.Time) error      { return nil }
func (*tlsSocket) SetReadDeadline(time.Time) error  { return nil }
func (*tlsSocket) SetWriteDeadline(time.Time) error { return nil }

// cursor iterates over buffers.
type cursor struct {
	bufs [][]byte
	at   int // in the first
}

// skip passes n bytes, and returns how many there were.
func (c *cursor) skip(n int) int {
	done := 0
	for done < n && len(c.bufs) > 0 {
		done += c.pass(min(n-done, len(c.bufs[0])-c.at))
	}
	return done
}

// gather appends bytes until dst has limit.
func (c *cursor) gather(dst []byte, limit int) []byte {
	for len(dst) < limit && len(c.bufs) > 0 {
		k := min(limit-len(dst), len(c.bufs[0])-c.at)
		dst = append(dst, c.bufs[0][c.at:c.at+k]...)
		c.pass(k)
	}
	return dst
}

func (c *cursor) pass(n int) int {
	if c.at += n; c.at == len(c.bufs[0]) {
		c.bufs, c.at = c.bufs[1:], 0
	}
	return n
}

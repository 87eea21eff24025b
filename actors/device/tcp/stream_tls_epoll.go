//go:build linux && !netpoll

package tcp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/internal/jobcert"
	"github.com/efactor/efactor/wire"
)

// tlsStream is a stream over TLS.
//
//	handshake   a goroutine of its own computes; the shard moves the bytes between it and
//	            the socket (handshake)
//	afterwards  the shard, which encrypts and decrypts between its buffers and the
//	            socket: crypto/tls takes EAGAIN of a read for a timeout, after which it
//	            goes on where it was
//
// Writes of crypto/tls never wait: they go to a buffer, of which the socket gets as much
// as it takes. As long as something is left there, the last byte that was encrypted is
// not reported to the caller of writev, which therefore comes again with it: it is owed.
// (Only the last one: the other side may have answered to those before.) (Goroutines
// between the shard and the socket would need a processor of Go's, and its network
// poller runs rarely while shards keep all of them busy.)
type tlsStream struct {
	c    conn
	sock tlsSocket
	tls  *tls.Conn
	cred *jobcert.Credentials

	up    bool   // the handshake was seen to end well
	fault error  // of the handshake, or of writing
	done  error  // of reading
	ended bool   // by shut
	taken uint64 // bytes that writev has reported
	owed  int    // bytes of the caller's that were encrypted and not reported
	plain []byte
}

// tlsChunk is how much is encrypted at a time: four records.
const tlsChunk = 64 << 10

var _ stream = (*tlsStream)(nil)

// wrap implements Credentials.
func (s *secured) wrap(fd socket, c conn) (stream, error) {
	t := &tlsStream{c: c, sock: tlsSocket{fd: fd, shake: newHandshake(c.ring)}}
	go t.handshake(s, t.sock.shake)
	return t, nil
}

func (t *tlsStream) fd() socket { return t.sock.fd }

func (t *tlsStream) over() bool { return isOver(t.sock.fd) }

func (t *tlsStream) near() (address, error) { return nearOf(t.sock.fd) }

// rise reports whether bytes can be sent; before that it carries the handshake's.
func (t *tlsStream) rise() bool {
	if t.up || t.fault != nil {
		return t.fault == nil
	}
	over, err := t.sock.carry()
	if !over {
		return false
	}
	if t.fault = err; err != nil {
		return false
	}
	t.up = true
	if t.ended {
		t.shut()
	}
	return t.fault == nil
}

func (t *tlsStream) readv(dst, more []byte) (int, error) {
	if !t.up && !t.rise() {
		return 0, t.fault
	}
	n := t.read(dst)
	if n == len(dst) {
		n += t.read(more)
	}
	if n == 0 && t.done == nil && t.owed == 0 { // what is owed is sent when writev can report it
		return 0, t.flush() // there may be answers to the other side's TLS
	}
	return n, t.done
}

// read fills p as far as it gets, and notes in t.done why there will be no more.
func (t *tlsStream) read(p []byte) int {
	n := 0
	for n < len(p) && t.done == nil {
		k, err := t.tls.Read(p[n:])
		n += k
		switch {
		case err == nil:
		case errors.Is(err, errAgain):
			return n
		case errors.Is(err, io.EOF) && t.sock.eof:
			t.done = errBrokenOff
		case errors.Is(err, io.EOF):
			t.done = io.EOF
		default:
			_ = t.sock.flush() // the alert
			t.done = err
		}
	}
	return n
}

func (t *tlsStream) writev(bufs [][]byte) (int, error) {
	if !t.rise() {
		return 0, t.fault
	}
	n, err := t.write(bufs)
	t.taken += uint64(n)
	return n, err
}

func (t *tlsStream) write(bufs [][]byte) (int, error) {
	from := cursor{bufs: bufs}
	done, passed := 0, from.skip(t.owed)
	for {
		if err := t.flush(); err != nil {
			return 0, err
		}
		if len(t.sock.held) > 0 {
			return done, nil
		}
		done, t.owed = done+passed, t.owed-passed
		if t.plain = from.gather(t.plain[:0], tlsChunk); len(t.plain) == 0 {
			return done, nil
		}
		if _, err := t.tls.Write(t.plain); err != nil {
			t.fault = err
			return 0, err
		}
		done, passed, t.owed = done+len(t.plain)-1, 1, 1
	}
}

// flush writes held output to the socket, as much as it takes.
func (t *tlsStream) flush() error {
	if err := t.sock.flush(); err != nil && t.fault == nil {
		t.fault = err
	}
	return t.fault
}

// unacked counts the connection's bytes, which are somewhat more than the caller's;
// it never returns more than there were of these.
func (t *tlsStream) unacked() int {
	n, err := unix.IoctlGetInt(t.sock.fd, unix.SIOCOUTQ)
	if err != nil {
		n = 0
	}
	return int(min(t.taken, uint64(len(t.sock.held)+n)))
}

func (t *tlsStream) vouch(who wire.RawAddr) error {
	if !t.up {
		return fmt.Errorf("%w: no handshake", errImpostor)
	}
	if err := t.cred.Verify(t.tls.ConnectionState(), who); err != nil {
		return fmt.Errorf("%w: %w", errImpostor, err)
	}
	return nil
}

// shut ends our direction, now or after the handshake. Nothing is owed then.
func (t *tlsStream) shut() {
	t.ended = true
	if !t.rise() {
		return
	}
	_ = t.tls.CloseWrite()
	if t.flush() == nil && len(t.sock.held) == 0 {
		_ = unix.Shutdown(t.sock.fd, unix.SHUT_WR)
	}
}

func (t *tlsStream) close() {
	if t.sock.shake != nil {
		t.sock.shake.end(net.ErrClosed)
	}
	_ = unix.Close(t.sock.fd)
}

// handshake is a goroutine. The shard gives up a handshake that takes too long.
func (t *tlsStream) handshake(s *secured, k *handshake) {
	cred, err := s.of(t.c.self)
	if err != nil {
		k.finish(err)
		return
	}
	t.cred = cred
	if t.c.dialed {
		t.tls = tls.Client(&t.sock, cred.Client(t.c.peer, t.c.peerQPN))
	} else {
		t.tls = tls.Server(&t.sock, cred.Server())
	}
	switch err := t.tls.Handshake(); {
	case err == nil:
		k.finish(nil)
	case errors.Is(err, io.EOF):
		k.finish(errBrokenOff)
	default:
		k.finish(fmt.Errorf("tcp: TLS handshake with %v: %w", AddrOf(t.c.peer), err))
	}
}

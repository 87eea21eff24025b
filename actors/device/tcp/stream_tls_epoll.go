//go:build linux && !netpoll

package tcp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/tcp/jobcert"
	"github.com/efactor/efactor/wire"
)

// tlsStream is a stream over TLS.
//
//	handshake   a goroutine of its own computes; the shard moves the bytes between it and
//	            the socket (tlsHandshake)
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
	t := &tlsStream{c: c, sock: tlsSocket{fd: fd, shake: newTLSHandshake(c.ring)}}
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
	over, err := t.sock.exchange()
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
func (t *tlsStream) handshake(s *secured, k *tlsHandshake) {
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
	shake *tlsHandshake // nil: it is over
	early []byte        // came with the handshake's last bytes
	held  []byte        // written, and not taken by the socket yet
	eof   bool          // the connection is over; crypto/tls may call that an orderly end (RFC 8446, 6.1)

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
	case notNow(err):
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
		if notNow(err) {
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

// tlsHandshake carries the bytes of a handshake between the goroutine that computes it and
// the shard, which has the socket to itself: a connection costs one descriptor, and is closed
// at once.
type tlsHandshake struct {
	ring func() // tells the shard that there is output, room for input, or a result

	mu     sync.Mutex
	news   sync.Cond // for the goroutine
	in     []byte    // received, not yet read
	out    []byte    // written, not yet taken
	err    error     // why no more input will come
	full   bool      // input was left in the socket
	over   bool      // the goroutine is done,
	result error     // with this
}

// maxShake is how much input waits for the goroutine. A flight has a few KiB.
const maxShake = 32 << 10

func newTLSHandshake(ring func()) *tlsHandshake {
	k := &tlsHandshake{ring: ring}
	k.news.L = &k.mu
	return k
}

// read is the goroutine's; it waits for input.
func (k *tlsHandshake) read(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.in) == 0 && k.err == nil {
		k.news.Wait()
	}
	if len(k.in) == 0 {
		return 0, k.err
	}
	n := copy(p, k.in)
	k.in = k.in[:copy(k.in, k.in[n:])]
	if k.full {
		k.full = false
		k.ring()
	}
	return n, nil
}

// write is the goroutine's; it does not wait.
func (k *tlsHandshake) write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.out)+len(p) > maxHeld {
		return 0, errHeld
	}
	k.out = append(k.out, p...)
	k.ring()
	return len(p), nil
}

// finish is the goroutine's last call.
func (k *tlsHandshake) finish(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over, k.result = true, err
	k.ring()
}

// end says that no more input will come.
func (k *tlsHandshake) end(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
	k.news.Signal()
}

// room reports whether there is room for n bytes of input. If not, the bell rings when there
// is.
func (k *tlsHandshake) room(n int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.full = !k.over && k.err == nil && len(k.in)+n > maxShake
	return !k.full && !k.over && k.err == nil
}

func (k *tlsHandshake) feed(b []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.in = append(k.in, b...)
	k.news.Signal()
}

// take moves the output so far to b. When the handshake is over, rest is input that came
// after it.
func (k *tlsHandshake) take(b []byte) (out, rest []byte, over bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b = append(b, k.out...)
	k.out = k.out[:0]
	if k.over {
		rest = k.in
	}
	return b, rest, k.over, k.result
}

// exchange moves the handshake's bytes from and to the socket, and reports whether it is over,
// and how it ended.
func (s *tlsSocket) exchange() (over bool, err error) {
	k := s.shake
	b := make([]byte, 4<<10)
	for k.room(len(b)) {
		n, err := rawRead(s.fd, &s.rv, b, nil)
		if notNow(err) {
			break
		}
		if err == nil && n == 0 {
			err = io.EOF
		}
		if err != nil {
			k.end(err)
			break
		}
		k.feed(b[:n])
	}
	s.held, s.early, over, err = k.take(s.held)
	if flushed := s.flush(); err == nil {
		err = flushed
	}
	if over {
		s.shake = nil
	}
	return over || err != nil, err
}

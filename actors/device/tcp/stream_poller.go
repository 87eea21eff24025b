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
	"time"

	"github.com/efactor/efactor/actors/device/tcp/jobcert"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// relay is a stream whose socket two goroutines of its own read and write, through Go's network
// poller. So the shard does not encrypt, and waits for no socket.
//
//	readv   <- in  <- goroutine: the handshake, then Read
//	writev  -> out -> goroutine: Write
type relay struct {
	c    conn
	sock net.Conn
	tls  *relayTLS // nil: without
	in   pipe
	out  pipe

	hung chan struct{} // closed when nothing more is read

	mu    sync.Mutex
	state relayState
}

type relayState uint8

const (
	relayShaking relayState = iota
	relayUp
	relayClosed // before it was up
)

const (
	// linger is for how long output leaves after close.
	linger = 500 * time.Millisecond
	// farewell is for how long the other side's end is awaited after ours: bytes that come after
	// close make the kernel send a reset, which could overtake our last ones.
	farewell = 100 * time.Millisecond
)

var _ stream = (*relay)(nil)

// newRelay makes a stream of a connected socket. With s it is over TLS.
func newRelay(sock net.Conn, c conn, s *secured) *relay {
	r := &relay{c: c, sock: sock, hung: make(chan struct{})}
	r.in.init(c.ring)
	r.out.init(c.ring)
	if s != nil {
		r.tls = &relayTLS{of: s, records: records{Conn: sock}}
	}
	c.running.Go(r.read)
	return r
}

// readv implements stream.
func (r *relay) readv(dst, more []byte) (int, error) {
	n, err := r.in.get(dst)
	if n == len(dst) && err == nil && len(more) > 0 {
		k, err := r.in.get(more)
		return n + k, err
	}
	return n, err
}

// writev implements stream.
func (r *relay) writev(bufs [][]byte) (int, error) {
	r.mu.Lock()
	if r.state != relayUp {
		defer r.mu.Unlock() // so that it is not up before it was asked
		return 0, r.out.ask()
	}
	r.mu.Unlock()
	return r.out.put(bufs)
}

func (r *relay) isUp() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state == relayUp
}

// unacked counts what the socket has not taken, and where the system says so what the other host
// has not acknowledged of the connection's bytes, which over TLS are somewhat more than the caller's.
func (r *relay) unacked() int {
	in, ever, _ := r.out.state()
	return int(min(ever, in+uint64(unackedOf(r.sock))))
}

// over implements stream.
func (r *relay) over() bool {
	_, _, err := r.in.state()
	return err != nil || hasEnded(r.sock)
}

// near implements stream.
func (r *relay) near() (address, error) { return addressAt(r.sock.LocalAddr()), nil }

// vouch implements stream.
func (r *relay) vouch(who wire.RawAddr) error {
	switch {
	case r.tls != nil && !r.isUp():
		return fmt.Errorf("%w: no handshake", errImpostor)
	case r.tls != nil:
		return r.tls.vouch(who)
	case who.GID() != r.c.peer:
		return errImpostor
	}
	return nil
}

// shut implements stream.
func (r *relay) shut() { r.out.finish() }

// close implements stream. Output that is left leaves within linger, and what arrives meanwhile is
// read. Without any, the descriptor is free at once, or after shut within farewell.
func (r *relay) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.state != relayUp:
		r.state = relayClosed
		_ = r.sock.Close()
	case r.out.idle():
		_ = r.sock.Close()
	default:
		_ = r.sock.SetDeadline(clock.Deadline(linger))
	}
	r.in.close()
	r.out.close()
}

// read is a goroutine.
func (r *relay) read() {
	defer close(r.hung)
	var from io.Reader = r.sock
	if r.tls != nil {
		if err := r.tls.shake(&r.c); err != nil {
			r.out.left(0, err)
			r.in.came(0, err)
			_ = r.sock.Close()
			return
		}
		from = r.tls
	}
	if !r.rise() {
		return
	}
	for {
		n, err := from.Read(r.in.room())
		r.in.came(n, err)
		if err != nil {
			return
		}
	}
}

// rise lets output leave; false: the stream was closed.
func (r *relay) rise() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == relayClosed {
		return false
	}
	r.state = relayUp
	r.c.running.Go(r.write)
	r.c.ring() // there is room now
	return true
}

// write is a goroutine. It closes the socket.
func (r *relay) write() {
	var to io.Writer = r.sock
	if r.tls != nil {
		to = r.tls
	}
	shut := false
	for {
		b, over := r.out.next()
		if over {
			break
		}
		if b == nil {
			shut = true
			r.closeWrite()
			continue
		}
		n, err := to.Write(b)
		if r.out.left(n, err); err != nil {
			r.out.await() // there may be something to read, perhaps the reason
			break
		}
	}
	if shut {
		_ = r.sock.SetReadDeadline(clock.Deadline(farewell))
		<-r.hung
	}
	_ = r.sock.Close()
}

func (r *relay) closeWrite() {
	if r.tls != nil {
		_ = r.tls.conn.CloseWrite()
	}
	if s, ok := r.sock.(interface{ CloseWrite() error }); ok {
		_ = s.CloseWrite()
	}
}

// errBrokenOff: the connection ended without a close notification. That is not io.EOF,
// by which the other side says that it has no more.
var errBrokenOff = fmt.Errorf("tcp: connection ended without a close notification of TLS: %w", connReset)

// wrap implements Credentials.
func (s *secured) wrap(sock socket, c conn) (stream, error) { return newRelay(sock.c, c, s), nil }

// relayTLS is TLS 1.3 of a relay, whose goroutines call its methods, but vouch, which is the
// shard's.
type relayTLS struct {
	of      *secured
	records records
	conn    *tls.Conn
	cred    *jobcert.Credentials
}

// shake makes the handshake. The shard gives one up that takes too long, by closing the socket.
func (t *relayTLS) shake(c *conn) error {
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

func (t *relayTLS) vouch(who wire.RawAddr) error {
	if err := t.cred.Verify(t.conn.ConnectionState(), who); err != nil {
		return fmt.Errorf("%w: %w", errImpostor, err)
	}
	return nil
}

func (t *relayTLS) Read(p []byte) (int, error) {
	n, err := t.conn.Read(p)
	if errors.Is(err, io.EOF) && t.records.eof.Load() || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errBrokenOff
	}
	return n, err
}

// Write sends all records of p in one call.
func (t *relayTLS) Write(p []byte) (int, error) {
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

// pipeBytes is how much waits in one direction of a relay. It is a power of two.
const pipeBytes = 64 << 10

// pipe is a ring of bytes between the shard, which never waits, and a goroutine, which does.
type pipe struct {
	ring func() // tells the shard what it asked to know

	mu     sync.Mutex
	news   sync.Cond // for the goroutine
	buf    []byte
	begin  uint64 // the bytes [begin, end) of all that ever passed are in it
	end    uint64
	err    error // why the goroutine moves no more
	asked  bool  // the shard found too little
	closed bool  // the shard takes, or puts, no more
	said   bool  // the shard puts no more, but may come for the other direction;
	shut   bool  // the goroutine has not done that yet
}

func (p *pipe) init(ring func()) {
	p.ring = ring
	p.news.L = &p.mu
}

// span is from a position up to the end of the ring, n bytes at most.
func (p *pipe) span(at, n uint64) []byte {
	i := at & (pipeBytes - 1)
	return p.buf[i:min(i+n, pipeBytes)]
}

// answer tells the shard that something has changed, if it asked. The lock is held.
func (p *pipe) answer() {
	if p.asked {
		p.asked = false
		p.ring()
	}
}

// get is the shard's: it moves what came to dst. An error comes with the last bytes.
func (p *pipe) get(dst []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n < len(dst) && p.begin < p.end {
		b := p.span(p.begin, p.end-p.begin)
		p.mu.Unlock() // the goroutine does not touch these
		k := copy(dst[n:], b)
		p.mu.Lock()
		p.begin += uint64(k)
		p.news.Signal()
		n += k
	}
	if p.begin < p.end { // dst is full
		return n, nil
	}
	p.asked = p.err == nil
	return n, p.err
}

// room is the goroutine's: it waits for room, and returns some of it.
func (p *pipe) room() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.end-p.begin == pipeBytes && !p.closed {
		p.news.Wait()
	}
	if p.buf == nil {
		p.buf = make([]byte, pipeBytes)
	}
	if p.closed { // nobody wants it
		p.begin, p.end = 0, 0
	}
	return p.span(p.end, pipeBytes-(p.end-p.begin))
}

// came is the goroutine's: it has put n bytes into the room, or can't any more.
func (p *pipe) came(n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end += uint64(n)
	p.err = err
	p.answer()
}

// put is the shard's: it takes as much of bufs as there is room for.
func (p *pipe) put(bufs [][]byte) (int, error) {
	p.mu.Lock()
	if p.err != nil {
		defer p.mu.Unlock()
		return 0, p.err
	}
	if p.buf == nil {
		p.buf = make([]byte, pipeBytes)
	}
	free := pipeBytes - (p.end - p.begin)
	p.mu.Unlock()
	n, all := uint64(0), true
	for _, b := range bufs {
		for len(b) > 0 && n < free {
			k := copy(p.span(p.end+n, free-n), b)
			b = b[k:]
			n += uint64(k)
		}
		if len(b) > 0 {
			all = false
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end += n; n > 0 {
		p.news.Signal()
	}
	switch {
	case all:
	case p.err != nil:
		return int(n), p.err
	case p.end-p.begin < pipeBytes: // some has left meanwhile
		p.asked = true
		p.answer()
	default:
		p.asked = true
	}
	return int(n), nil
}

// next is the goroutine's: it waits for bytes, and returns some. None: that is all, since the
// pipe was shut (once) or closed (over, after that).
func (p *pipe) next() (b []byte, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.end == p.begin && !p.closed && !p.shut {
		p.news.Wait()
	}
	switch {
	case p.end > p.begin:
	case p.shut:
		p.shut = false
		return nil, false
	default:
		return nil, true
	}
	return p.span(p.begin, p.end-p.begin), false
}

// left is the goroutine's: n bytes of those that next returned have left, or no more can.
func (p *pipe) left(n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin += uint64(n)
	if p.err == nil {
		p.err = err
	}
	p.answer()
}

// finish is the shard's: it puts no more.
func (p *pipe) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut, p.said = true, true
	p.news.Signal()
}

// close is the shard's last call. What was put still leaves.
func (p *pipe) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.news.Signal()
}

// await is the goroutine's: it waits for close.
func (p *pipe) await() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed {
		p.news.Wait()
	}
}

// idle reports whether nothing was put that has not left, and nobody said that no more will be.
func (p *pipe) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begin == p.end && !p.said
}

// state is how many bytes are in it, how many ever were, and why no more are moved.
func (p *pipe) state() (in, ever uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end - p.begin, p.end, p.err
}

// ask is the shard's: it wants to know when bytes can be put.
func (p *pipe) ask() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = p.err == nil
	return p.err
}

//go:build !linux || netpoll

package tcp

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"

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
	tls  *session13 // nil: without
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
		r.tls = &session13{of: s, records: records{Conn: sock}}
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

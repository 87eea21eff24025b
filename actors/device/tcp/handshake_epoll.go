//go:build linux && !netpoll

package tcp

import (
	"io"
	"sync"

	"golang.org/x/sys/unix"
)

// handshake carries the bytes of a handshake between the goroutine that computes it and
// the shard, which has the socket to itself: a connection costs one descriptor, and is closed
// at once.
type handshake struct {
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

func newHandshake(ring func()) *handshake {
	k := &handshake{ring: ring}
	k.news.L = &k.mu
	return k
}

// read is the goroutine's; it waits for input.
func (k *handshake) read(p []byte) (int, error) {
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
func (k *handshake) write(p []byte) (int, error) {
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
func (k *handshake) finish(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over, k.result = true, err
	k.ring()
}

// end says that no more input will come.
func (k *handshake) end(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
	k.news.Signal()
}

// room reports whether there is room for n bytes of input. If not, the bell rings when there
// is.
func (k *handshake) room(n int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.full = !k.over && k.err == nil && len(k.in)+n > maxShake
	return !k.full && !k.over && k.err == nil
}

func (k *handshake) feed(b []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.in = append(k.in, b...)
	k.news.Signal()
}

// take moves the output so far to b. When the handshake is over, rest is input that came
// after it.
func (k *handshake) take(b []byte) (out, rest []byte, over bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b = append(b, k.out...)
	k.out = k.out[:0]
	if k.over {
		rest = k.in
	}
	return b, rest, k.over, k.result
}

// carry moves the handshake's bytes from and to the socket, and reports whether it is over,
// and how it ended.
func (s *tlsSocket) carry() (over bool, err error) {
	k := s.shake
	b := make([]byte, 4<<10)
	for k.room(len(b)) {
		n, err := rawRead(s.fd, &s.rv, b, nil)
		if err == unix.EAGAIN { //nolint:errorlint // a bare errno
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

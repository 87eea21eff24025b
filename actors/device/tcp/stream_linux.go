package tcp

import (
	"io"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// stream carries the bytes of one connection. The shard that owns the queue pair makes
// all calls; none of them waits or, after the first few, allocates.
//
//	plain      the socket itself
//	TLS        crypto/tls between the shard and the socket; a goroutine for the handshake
//
// After an error other calls may be made and return one, too; only close is
// required.
type stream interface {
	// fd is watched, edge-triggered, for as long as the stream is open: it becomes readable
	// when readv has more after it found too little, or an error, and writable, or readable
	// as well, when writev has room after it had too little; or conn.ring is called.
	fd() int

	// readv fills dst and then more with received bytes, and returns their number. 0 and
	// nil: nothing now. io.EOF: the other side will send no more. Bytes from before an
	// error may be returned with it.
	readv(dst, more []byte) (int, error)

	// writev takes bufs in order, as much as there is room for, and returns the
	// number of bytes. They will be sent without a further call.
	writev(bufs [][]byte) (int, error)

	// unacked is how many bytes that writev took the other host has not acknowledged. It
	// may cost a system call. (A falling number is a sign of life of a slow connection.)
	unacked() int

	// vouch returns an error unless the other side may claim to be the queue pair of
	// that raw address, connid (its Q_Key) included: a preamble states all three, that
	// of the accepting side as well. It is called when bytes have arrived, so a
	// handshake is over.
	vouch(who wire.RawAddr) error

	// shut ends our direction after the pending output.
	shut()

	// close releases everything, at once. The caller must take fd out of its epoll before.
	close()
}

// Credentials secure the connections of a device (Config.Credentials).
type Credentials interface {
	// wrap makes a stream of a connected, non-blocking TCP socket, which belongs to
	// the stream from now on, also after an error. It does not wait for a handshake:
	// until that is over nothing is received and there is no room, and if it fails
	// readv and writev return the error. c describes the connection.
	wrap(fd int, c conn) (stream, error)
}

// conn describes a connection to credentials.
type conn struct {
	dialed  bool         // by us; otherwise accepted
	self    wire.RawAddr // ours; the connid is the Q_Key
	peer    device.GID   // of the host at the other end of the socket
	peerQPN uint16       // that we dialed; 0 if accepted
	cfg     *Config      // Timeout, Clock, Logger

	// ring makes the shard call readv and writev although fd has no news. Any goroutine may
	// call it.
	ring func()
}

// plain is a stream without protection: the socket, polled by the shard without the
// help of Go's scheduler.
type plain struct {
	sock int
	peer device.GID
	rv   [2]unix.Iovec
	wv   [maxIovecs]unix.Iovec
}

var _ stream = (*plain)(nil)

func newPlain(fd int, c conn) *plain { return &plain{sock: fd, peer: c.peer} }

func (p *plain) fd() int { return p.sock }

func (p *plain) readv(dst, more []byte) (int, error) {
	n, err := rawRead(p.sock, &p.rv, dst, more)
	switch {
	case err == unix.EAGAIN: //nolint:errorlint // a bare errno, on the hot path
		return 0, nil
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func (p *plain) writev(bufs [][]byte) (int, error) {
	n, err := rawWrite(p.sock, &p.wv, bufs)
	if err == unix.EAGAIN { //nolint:errorlint // a bare errno, on the hot path
		return 0, nil
	}
	return n, err
}

func (p *plain) unacked() int {
	n, err := unix.IoctlGetInt(p.sock, unix.SIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

// vouch accepts any address: any process on a host may claim to be any of the
// host's queue pairs.
func (p *plain) vouch(who wire.RawAddr) error {
	if who.GID() != p.peer {
		return errImpostor
	}
	return nil
}

func (p *plain) shut() { _ = unix.Shutdown(p.sock, unix.SHUT_WR) }

func (p *plain) close() { _ = unix.Close(p.sock) }

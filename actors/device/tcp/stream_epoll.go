//go:build linux && !netpoll

package tcp

import (
	"io"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

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

func (p *plain) fd() socket { return p.sock }

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

func (p *plain) over() bool { return isOver(p.sock) }

func (p *plain) near() (address, error) { return nearOf(p.sock) }

func (p *plain) shut() { _ = unix.Shutdown(p.sock, unix.SHUT_WR) }

func (p *plain) close() { _ = unix.Close(p.sock) }

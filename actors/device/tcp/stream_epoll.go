//go:build linux && !netpoll

package tcp

import (
	"io"
	"runtime"
	"syscall"
	"unsafe"

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
	case notNow(err):
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
	if notNow(err) {
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

// notNow reports whether a call on a socket moved nothing, and the next one may: there was no
// room, or, for which epoll tells no end, no memory. Lane.onTick calls again.
func notNow(err error) bool {
	return err == unix.EAGAIN || err == unix.ENOBUFS || err == unix.ENOMEM //nolint:errorlint // a bare errno, on the hot path
}

// A call that moves more than rawLimit bytes is announced to Go's scheduler, which
// costs less than the call takes, and lets other goroutines run meanwhile.
const rawLimit = 32 << 10

// rawRead reads into dst, then more. The socket does not block, so the scheduler need
// not know.
func rawRead(fd int, v *[2]unix.Iovec, dst, more []byte) (int, error) {
	k := 0
	if len(dst) > 0 {
		v[k].Base, v[k].Len = unsafe.SliceData(dst), uint64(len(dst))
		k++
	}
	if len(more) > 0 {
		v[k].Base, v[k].Len = unsafe.SliceData(more), uint64(len(more))
		k++
	}
	n, errno := call(unix.SYS_READV, fd, v[:], k, len(dst) > rawLimit)
	runtime.KeepAlive(dst)
	runtime.KeepAlive(more)
	v[0].Base, v[1].Base = nil, nil
	if errno != 0 {
		return 0, errno
	}
	return n, nil
}

// rawWrite writes the first maxIovecs of bufs.
func rawWrite(fd int, v *[maxIovecs]unix.Iovec, bufs [][]byte) (int, error) {
	k, total := 0, 0
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		if k == maxIovecs {
			break
		}
		v[k].Base, v[k].Len = unsafe.SliceData(b), uint64(len(b))
		total += len(b)
		k++
	}
	if k == 0 {
		return 0, nil
	}
	n, errno := call(unix.SYS_WRITEV, fd, v[:], k, total > rawLimit)
	runtime.KeepAlive(bufs)
	for i := range k {
		v[i].Base = nil
	}
	if errno != 0 {
		return 0, errno
	}
	return n, nil
}

func call(trap uintptr, fd int, v []unix.Iovec, k int, long bool) (int, syscall.Errno) {
	for {
		var n uintptr
		var errno syscall.Errno
		if long {
			n, _, errno = syscall.Syscall(trap, uintptr(fd), uintptr(unsafe.Pointer(&v[0])), uintptr(k))
		} else {
			n, _, errno = syscall.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(&v[0])), uintptr(k))
		}
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// rawEpoll polls without waiting.
func rawEpoll(fd int, events []unix.EpollEvent) int {
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(fd),
			uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
		if errno == 0 {
			return int(n)
		}
		if errno != unix.EINTR {
			return 0
		}
	}
}

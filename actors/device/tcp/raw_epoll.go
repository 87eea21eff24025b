//go:build linux && !netpoll

package tcp

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

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

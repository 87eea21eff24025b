package sys

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// ReadProcess copies len(local) bytes at addr of a process to local, and returns how many
// of them there were. The kernel decides whether this process may (ptrace_may_access):
// EPERM. ESRCH: the process has ended, EFAULT: nothing is there. It allocates nothing.
func ReadProcess(pid int, local []byte, addr uint64) (int, error) {
	return move(pid, local, addr, false)
}

// WriteProcess is ReadProcess in the other direction.
func WriteProcess(pid int, local []byte, addr uint64) (int, error) {
	return move(pid, local, addr, true)
}

func move(pid int, local []byte, addr uint64, write bool) (n int, err error) {
	if len(local) == 0 {
		return 0, nil
	}
	ours := [1]unix.Iovec{{Base: &local[0]}}
	ours[0].SetLen(len(local))
	theirs := [1]unix.RemoteIovec{{Base: uintptr(addr), Len: len(local)}}
	for {
		if write { // called by name, so that nothing is allocated
			n, err = unix.ProcessVMWritev(pid, ours[:], theirs[:], 0)
		} else {
			n, err = unix.ProcessVMReadv(pid, ours[:], theirs[:], 0)
		}
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, unix.ENOSYS) && pid == os.Getpid():
			return ownMemory.move(local, addr, write)
		case !errors.Is(err, unix.EINTR):
			return n, err
		}
	}
}

// OpenProcess returns a descriptor that becomes readable when the process has ended.
func OpenProcess(pid int) (fd int, err error) { return unix.PidfdOpen(pid, 0) }

// own moves bytes of this process where there is no process_vm_readv, as under qemu's user
// mode: through a pipe, since the kernel checks the addresses that it fills one from and
// empties it to. Errors are those of process_vm_readv.
type own struct {
	mu   sync.Mutex
	open bool
	ends [2]int
}

var ownMemory own

// atOnce is less than a pipe has room for.
const atOnce = 16 << 10

func (o *own) move(local []byte, addr uint64, write bool) (n int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.open {
		if err := unix.Pipe2(o.ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			return 0, err
		}
		o.open = true
	}
	for n < len(local) {
		part := local[n:min(len(local), n+atOnce)]
		moved := 0
		if at := addr + uint64(n); at >= addr {
			moved = o.piece(part, uintptr(at), write)
		}
		n += moved
		if moved < len(part) {
			o.drain()
			break
		}
	}
	if n == 0 {
		return 0, unix.EFAULT
	}
	return n, nil
}

// piece returns how much of p it has moved.
func (o *own) piece(p []byte, addr uintptr, write bool) int {
	if write {
		if n, err := unix.Write(o.ends[1], p); err != nil || n != len(p) {
			return 0
		}
		n, _, e := unix.Syscall(unix.SYS_READ, uintptr(o.ends[0]), addr, uintptr(len(p)))
		if e != 0 {
			return 0
		}
		return int(n)
	}
	n, _, e := unix.Syscall(unix.SYS_WRITE, uintptr(o.ends[1]), addr, uintptr(len(p)))
	if e != 0 {
		return 0
	}
	got, err := unix.Read(o.ends[0], p[:n])
	if err != nil {
		return 0
	}
	return got
}

// drain forgets what a failed transfer has left in the pipe.
func (o *own) drain() {
	var b [256]byte
	for {
		if n, err := unix.Read(o.ends[0], b[:]); n <= 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

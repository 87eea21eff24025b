package sys

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

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

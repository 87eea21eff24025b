package sys

import (
	"errors"
	"os"

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

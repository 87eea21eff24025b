//go:build linux && (amd64 || arm64)

package nthcall

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Error numbers that calls of a kind may give.
var (
	makesDescriptor = []unix.Errno{unix.EMFILE, unix.ENOMEM, unix.EPERM}
	opensFile       = []unix.Errno{unix.EMFILE, unix.EACCES, unix.ENOMEM}
	makesFile       = []unix.Errno{unix.ENOSPC, unix.EPERM}
	usesMemory      = []unix.Errno{unix.ENOMEM, unix.EPERM}
	moves           = []unix.Errno{unix.EINTR, unix.EAGAIN, unix.EIO}
	movesSocket     = []unix.Errno{unix.EINTR, unix.EAGAIN, unix.ECONNRESET, unix.ENOBUFS}
	waits           = []unix.Errno{unix.EINTR, unix.ENOMEM}
	asksSocket      = []unix.Errno{unix.ENOBUFS, unix.EPERM}
)

// aCall is what is known of a system call by its number. A call that is not listed fails all
// the same: nothing is left out because nobody thought of it.
type aCall struct {
	name   string
	errnos []unix.Errno
}

var calls = map[uint32]aCall{
	unix.SYS_OPENAT:            {"openat", opensFile},
	unix.SYS_SOCKET:            {"socket", makesDescriptor},
	unix.SYS_EVENTFD2:          {"eventfd2", makesDescriptor},
	unix.SYS_EPOLL_CREATE1:     {"epoll_create1", makesDescriptor},
	unix.SYS_TIMERFD_CREATE:    {"timerfd_create", makesDescriptor},
	unix.SYS_MEMFD_CREATE:      {"memfd_create", makesDescriptor},
	unix.SYS_PIDFD_OPEN:        {"pidfd_open", makesDescriptor},
	unix.SYS_PIDFD_GETFD:       {"pidfd_getfd", makesDescriptor},
	unix.SYS_ACCEPT4:           {"accept4", []unix.Errno{unix.EMFILE, unix.ECONNABORTED, unix.EINTR}},
	unix.SYS_DUP3:              {"dup3", makesDescriptor},
	unix.SYS_PIPE2:             {"pipe2", makesDescriptor},
	unix.SYS_FCNTL:             {"fcntl", []unix.Errno{unix.EMFILE, unix.ENOLCK, unix.EPERM}},
	unix.SYS_MKDIRAT:           {"mkdirat", makesFile},
	unix.SYS_MKNODAT:           {"mknodat", makesFile},
	unix.SYS_LINKAT:            {"linkat", makesFile},
	unix.SYS_FALLOCATE:         {"fallocate", []unix.Errno{unix.ENOSPC, unix.EINTR, unix.EOPNOTSUPP}},
	unix.SYS_FTRUNCATE:         {"ftruncate", []unix.Errno{unix.ENOSPC, unix.EINTR}},
	unix.SYS_UNLINKAT:          {"unlinkat", []unix.Errno{unix.EPERM}},
	unix.SYS_FCHMOD:            {"fchmod", []unix.Errno{unix.EPERM}},
	unix.SYS_FSTAT:             {"fstat", usesMemory},
	unix.SYS_STATX:             {"statx", usesMemory},
	unix.SYS_READLINKAT:        {"readlinkat", usesMemory},
	unix.SYS_GETDENTS64:        {"getdents64", usesMemory},
	unix.SYS_LSEEK:             {"lseek", []unix.Errno{unix.EPERM}},
	unix.SYS_MMAP:              {"mmap", usesMemory},
	unix.SYS_MUNMAP:            {"munmap", usesMemory},
	unix.SYS_MREMAP:            {"mremap", usesMemory},
	unix.SYS_MPROTECT:          {"mprotect", usesMemory},
	unix.SYS_MADVISE:           {"madvise", usesMemory},
	unix.SYS_READ:              {"read", moves},
	unix.SYS_WRITE:             {"write", moves},
	unix.SYS_PREAD64:           {"pread64", moves},
	unix.SYS_PWRITE64:          {"pwrite64", []unix.Errno{unix.EINTR, unix.ENOSPC, unix.EIO}},
	unix.SYS_READV:             {"readv", movesSocket},
	unix.SYS_WRITEV:            {"writev", movesSocket},
	unix.SYS_SENDTO:            {"sendto", movesSocket},
	unix.SYS_RECVFROM:          {"recvfrom", movesSocket},
	unix.SYS_SENDMSG:           {"sendmsg", movesSocket},
	unix.SYS_RECVMSG:           {"recvmsg", movesSocket},
	unix.SYS_PROCESS_VM_READV:  {"process_vm_readv", []unix.Errno{unix.EPERM, unix.ENOMEM, unix.EINTR}},
	unix.SYS_PROCESS_VM_WRITEV: {"process_vm_writev", []unix.Errno{unix.EPERM, unix.ENOMEM, unix.EINTR}},
	unix.SYS_BIND:              {"bind", []unix.Errno{unix.EADDRINUSE, unix.EPERM}},
	unix.SYS_LISTEN:            {"listen", []unix.Errno{unix.EADDRINUSE, unix.EPERM}},
	unix.SYS_CONNECT:           {"connect", []unix.Errno{unix.ECONNREFUSED, unix.EADDRNOTAVAIL, unix.EINTR, unix.EPERM}},
	unix.SYS_GETSOCKNAME:       {"getsockname", asksSocket},
	unix.SYS_GETPEERNAME:       {"getpeername", []unix.Errno{unix.ENOTCONN, unix.EPERM}},
	unix.SYS_GETSOCKOPT:        {"getsockopt", asksSocket},
	unix.SYS_SETSOCKOPT:        {"setsockopt", asksSocket},
	unix.SYS_SHUTDOWN:          {"shutdown", []unix.Errno{unix.ENOTCONN, unix.EPERM}},
	unix.SYS_IOCTL:             {"ioctl", []unix.Errno{unix.ENOTTY, unix.EPERM}},
	unix.SYS_PPOLL:             {"ppoll", waits},
	unix.SYS_EPOLL_PWAIT:       {"epoll_pwait", waits},
	unix.SYS_EPOLL_CTL:         {"epoll_ctl", []unix.Errno{unix.ENOMEM, unix.ENOSPC}},
	unix.SYS_TIMERFD_SETTIME:   {"timerfd_settime", []unix.Errno{unix.EPERM}},
	unix.SYS_NANOSLEEP:         {"nanosleep", []unix.Errno{unix.EINTR}},
	unix.SYS_CLOSE:             {"close", []unix.Errno{unix.EINTR, unix.EIO}},
	unix.SYS_GETRANDOM:         {"getrandom", []unix.Errno{unix.EINTR}},
	unix.SYS_SCHED_YIELD:       {"sched_yield", []unix.Errno{unix.EPERM}},
	unix.SYS_SCHED_GETAFFINITY: {"sched_getaffinity", usesMemory},
	unix.SYS_SCHED_SETAFFINITY: {"sched_setaffinity", usesMemory},
	unix.SYS_PRCTL:             {"prctl", []unix.Errno{unix.EPERM}},
	unix.SYS_UNAME:             {"uname", []unix.Errno{unix.EPERM}},
}

func callName(nr uint32) string {
	if c, ok := calls[nr]; ok {
		return c.name
	}
	return fmt.Sprintf("call %d", nr)
}

func callErrnos(nr uint32) []unix.Errno {
	if c, ok := calls[nr]; ok {
		return c.errnos
	}
	return []unix.Errno{unix.EPERM}
}

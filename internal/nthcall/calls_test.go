//go:build linux && (amd64 || arm64)

package nthcall

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Error numbers that calls of a kind may give.
var (
	makesDescriptor = []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EPERM}
	opensFile       = []unix.Errno{unix.EMFILE, unix.ENFILE, unix.EACCES, unix.ENOMEM, unix.EINTR}
	makesFile       = []unix.Errno{unix.ENOSPC, unix.EPERM}
	usesMemory      = []unix.Errno{unix.ENOMEM, unix.EPERM}
	moves           = []unix.Errno{unix.EINTR, unix.EAGAIN, unix.EIO}
	movesSocket     = []unix.Errno{unix.EINTR, unix.EAGAIN, unix.ECONNRESET, unix.ENOBUFS}
	waits           = []unix.Errno{unix.EINTR, unix.ENOMEM}
	asksSocket      = []unix.Errno{unix.ENOBUFS, unix.EPERM}
)

// passing are the error numbers of a moment: a call that failed by one of them, once, leaves all that
// was there before in working order.
var passing = []unix.Errno{
	unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.ENOSPC, unix.ENOLCK, unix.EINTR, unix.EAGAIN,
	unix.EADDRNOTAVAIL, unix.ECONNABORTED, unix.EPROTO,
}

// lacks are those of passing by which calls go on failing for a while, and a spell is how often they do:
// more often than anything is tried again without a pause.
var lacks = []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.EADDRNOTAVAIL}

const spell = 4

// spells reports whether a row of its errno has a spell, too: of a call that makes a descriptor, a mapping
// or a connection. What others leave that look or give back is counted once.
func spells(nr uint32, e unix.Errno) bool {
	switch nr {
	case unix.SYS_MMAP, unix.SYS_CONNECT, unix.SYS_EPOLL_CTL:
		return slices.Contains(lacks, e)
	case unix.SYS_FCNTL:
		return false
	default:
		return slices.Contains(callErrnos(nr), unix.EMFILE) && slices.Contains(lacks, e)
	}
}

// aCall is what is known of a system call by its number. A call that is not listed fails all
// the same: nothing is left out because nobody thought of it.
type aCall struct {
	name   string
	errnos []unix.Errno
}

var calls = map[uint32]aCall{
	unix.SYS_OPENAT:            {"openat", opensFile},
	unix.SYS_SOCKET:            {"socket", append([]unix.Errno{unix.ENOBUFS}, makesDescriptor...)},
	unix.SYS_EVENTFD2:          {"eventfd2", makesDescriptor},
	unix.SYS_EPOLL_CREATE1:     {"epoll_create1", makesDescriptor},
	unix.SYS_TIMERFD_CREATE:    {"timerfd_create", makesDescriptor},
	unix.SYS_MEMFD_CREATE:      {"memfd_create", makesDescriptor},
	unix.SYS_PIDFD_OPEN:        {"pidfd_open", makesDescriptor},
	unix.SYS_PIDFD_GETFD:       {"pidfd_getfd", makesDescriptor},
	unix.SYS_ACCEPT4:           {"accept4", []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ECONNABORTED, unix.ENOBUFS, unix.ENOMEM, unix.EINTR, unix.EPROTO}},
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
	unix.SYS_CONNECT:           {"connect", []unix.Errno{unix.ECONNREFUSED, unix.EADDRNOTAVAIL, unix.EAGAIN, unix.EINTR, unix.EPERM}},
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

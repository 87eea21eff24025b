package nthcall

import "golang.org/x/sys/unix"

func init() { // what only older architectures have
	calls[unix.SYS_OPEN] = aCall{"open", opensFile}
	calls[unix.SYS_STAT] = aCall{"stat", usesMemory}
	calls[unix.SYS_LSTAT] = aCall{"lstat", usesMemory}
	calls[unix.SYS_NEWFSTATAT] = aCall{"newfstatat", usesMemory}
	calls[unix.SYS_READLINK] = aCall{"readlink", usesMemory}
	calls[unix.SYS_MKDIR] = aCall{"mkdir", makesFile}
	calls[unix.SYS_UNLINK] = aCall{"unlink", []unix.Errno{unix.EPERM}}
	calls[unix.SYS_POLL] = aCall{"poll", waits}
	calls[unix.SYS_EPOLL_WAIT] = aCall{"epoll_wait", waits}
}

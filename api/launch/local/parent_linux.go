package local

import "syscall"

// dieWithParent makes the kernel end a process with the one that started it.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

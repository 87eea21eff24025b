package errno

import "syscall"

const remoteIO = syscall.EREMOTEIO

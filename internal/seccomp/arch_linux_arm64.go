package seccomp

import "golang.org/x/sys/unix"

// NativeArch is the architecture word of 64-bit calls.
const NativeArch = unix.AUDIT_ARCH_AARCH64

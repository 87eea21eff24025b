package seccomp

import "golang.org/x/sys/unix"

// NativeArch is the architecture word of 64-bit calls. x32 has it too, with a bit
// in the number that makes it none of those known.
const NativeArch = unix.AUDIT_ARCH_X86_64

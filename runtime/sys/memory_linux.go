package sys

import "golang.org/x/sys/unix"

// adviseHuge is a hint: kernels without huge pages refuse it, and that is fine.
func adviseHuge(mem []byte) { _ = unix.Madvise(mem, unix.MADV_HUGEPAGE) }

//go:build linux && (amd64 || arm64)

package trap

import (
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/interop/efaemu/kernel"
)

// Device is the device behind the device file: package kernel's, or a wrapper. Its
// methods, and those of its files, may be called from any goroutine.
type Device interface {
	// Open is open(2). The name is for the memfd that is handed out.
	Open(name string) (File, error)
}

// File is the result of one open(2), a kernel.Context.
type File interface {
	// FD is the memfd, which stays the File's.
	FD() int
	// Ioctl is ioctl(2); 0 is success. It may be called after Close, and while
	// Close runs: then the program has been killed, and the answer is not read.
	Ioctl(t kernel.Task, cmd, arg uint64) unix.Errno
	// Close is called once the program has neither descriptors nor mappings.
	Close()
}

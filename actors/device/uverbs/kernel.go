//go:build linux

package uverbs

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/mmio"
)

// Kernel is what a driver asks the system for: device files, and ordinary memory that a
// device may be told of. Errors are those of the system calls.
type Kernel interface {
	// Open opens a device file.
	Open(path string) (File, error)
	// Map is n bytes of memory, zeroed, whole pages, outside of the Go heap.
	Map(n int) ([]byte, error)
	// Unmap gives them back.
	Unmap(b []byte) error
}

// File is an open device file. Any goroutine may call its methods.
type File interface {
	// Ioctl is ioctl(2). What arg and the attributes point to does not move.
	Ioctl(cmd uint64, arg unsafe.Pointer) error
	// Mmap is mmap(2) of length bytes at a key that a command has returned.
	Mmap(key int64, length, prot, flags int) ([]byte, error)
	// Munmap is munmap(2) of a whole mapping of Mmap.
	Munmap(b []byte) error
	// Close is close(2). Mappings stay, and with them the device's objects.
	Close() error
}

// OS is the Kernel that this process runs on.
type OS struct{}

// Open implements Kernel.
func (OS) Open(path string) (File, error) {
	if !mmio.Hardware {
		return nil, fmt.Errorf("%w: this program was built without the fences that %s takes", device.ErrNotSupported, path)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return osFile(fd), nil
}

// Map implements Kernel. A child that os/exec starts has no copy of the memory, which
// could otherwise keep a page that the device writes to from this process.
func (OS) Map(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	_ = unix.Madvise(b, unix.MADV_DONTFORK) // pinned pages are copied at a fork since Linux 5.13
	if n >= hugePage {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // fewer entries in the device's page list
	}
	return b, nil
}

// Unmap implements Kernel.
func (OS) Unmap(b []byte) error { return os.NewSyscallError("munmap", unix.Munmap(b)) }

const hugePage = 2 << 20

// osFile is a descriptor.
type osFile int

// Ioctl implements File.
func (f osFile) Ioctl(cmd uint64, arg unsafe.Pointer) error {
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(f), uintptr(cmd), uintptr(arg)); e != 0 {
		return e
	}
	return nil
}

// Mmap implements File.
func (f osFile) Mmap(key int64, length, prot, flags int) ([]byte, error) {
	return unix.Mmap(int(f), key, length, prot, flags)
}

// Munmap implements File.
func (osFile) Munmap(b []byte) error { return unix.Munmap(b) }

// Close implements File.
func (f osFile) Close() error { return unix.Close(int(f)) }

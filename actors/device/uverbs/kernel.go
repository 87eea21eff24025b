//go:build linux

package uverbs

import "unsafe"

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

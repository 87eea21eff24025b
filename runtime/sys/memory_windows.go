package sys

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// Anonymous maps size bytes, zeroed, of a multiple of the page size. Large pages need a
// privilege that programs do not have, so huge changes nothing.
func Anonymous(size int, _ bool) ([]byte, error) {
	addr, err := windows.VirtualAlloc(0, uintptr(size), windows.MEM_RESERVE|windows.MEM_COMMIT, windows.PAGE_READWRITE)
	if err != nil {
		return nil, err
	}
	// The address is not the garbage collector's, so that it may be a pointer at once; the
	// indirection is what go vet asks for.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), size), nil
}

// Unmap gives back what Anonymous has mapped.
func Unmap(mem []byte) error {
	return windows.VirtualFree(uintptr(unsafe.Pointer(unsafe.SliceData(mem))), 0, windows.MEM_RELEASE)
}

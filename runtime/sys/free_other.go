//go:build !linux

package sys

// FreeMemory is how many bytes of memory this process may still use. Only Linux tells.
func FreeMemory() (uint64, error) { return 0, ErrUnsupported }

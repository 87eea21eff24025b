//go:build !linux

package sys

// ReadProcess is not possible here.
func ReadProcess(int, []byte, uint64) (int, error) { return 0, ErrUnsupported }

// WriteProcess is not possible here.
func WriteProcess(int, []byte, uint64) (int, error) { return 0, ErrUnsupported }

// OpenProcess is not possible here.
func OpenProcess(int) (int, error) { return -1, ErrUnsupported }

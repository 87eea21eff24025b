//go:build !linux

package memory

import (
	"errors"
	"fmt"
	"os"
)

type process int

// Process needs Linux: other systems have no such transfers.
func Process(pid int) Space { return process(pid) }

// Self is the memory of this process.
func Self() Space { return Process(os.Getpid()) }

// PID implements Space.
func (s process) PID() int { return int(s) }

// ReadAt implements Space.
func (process) ReadAt([]byte, uint64) error {
	return fmt.Errorf("%w: %w", ErrFault, errors.ErrUnsupported)
}

// WriteAt implements Space.
func (process) WriteAt([]byte, uint64) error {
	return fmt.Errorf("%w: %w", ErrFault, errors.ErrUnsupported)
}

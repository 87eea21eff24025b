package memory

import "errors"

// ErrGone: the process has ended; ErrFault: nothing is mapped there, or not for that.
var (
	ErrGone  = errors.New("memory: process has ended")
	ErrFault = errors.New("memory: bad address")
)

// Space is an address space.
type Space interface {
	// ReadAt fills p from addr, or fails with ErrFault or ErrGone.
	ReadAt(p []byte, addr uint64) error
	// WriteAt stores p at addr, or fails; bytes before a fault may be stored.
	WriteAt(p []byte, addr uint64) error
	// PID is the process.
	PID() int
}

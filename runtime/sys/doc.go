// Package sys holds the system calls of the runtime: what Linux has, and for other
// systems a small fallback or [ErrUnsupported]. Files without a suffix hold everywhere, _unix.go
// for every Unix, _linux.go for Linux, _windows.go for Windows, _other.go for the rest.
//
//	memory    Anonymous, Unmap, FreeMemory
//	an event  OpenEvent, SignalEvent, WaitEvent, DrainEvent, CloseEvent: a descriptor that any thread makes readable
//	waiting   WaitSet: an event and other descriptors
//	CPUs      CPUSet, SchedGetaffinity, SchedSetaffinity, CPULimit, Yield
//	processes ReadProcess, WriteProcess: memory of another process
//	copying   CopyOut, StoreRelease: between cores; copy_amd64.go and copy_other.go
//	the heap  InGoHeap
//	orders    Step, Await: where a test with the build tag interleave says which goroutine goes on
//
// Drivers that exist on Linux alone (shm, tcp) call golang.org/x/sys/unix for their own
// files and sockets, in _linux.go files.
package sys

import "errors"

// ErrUnsupported is errors.ErrUnsupported: this system has nothing of the kind.
var ErrUnsupported = errors.ErrUnsupported

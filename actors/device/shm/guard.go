package shm

import (
	"runtime"
	"runtime/debug"
	"unsafe"
)

// Another process can cut a file that we have mapped: touching what is not there any more
// is a fault (SIGBUS), which would end this process. A guard makes it the end of that
// mapping's use, and nothing else.

// fault is a mapping that has lost its file.
type fault struct{ addr uintptr }

// in reports whether the fault was in b.
func (f fault) in(b []byte) bool {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return f.addr >= at && f.addr-at < uintptr(len(b))
}

// guarded calls f. If that faults, it asks mine whether the memory is one that may: then it
// returns false, and otherwise it goes on to panic.
func guarded(f func(), mine func(fault) bool) (ok bool) {
	was := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(was)
		if ok {
			return
		}
		r := recover()
		err, is := r.(interface {
			runtime.Error
			Addr() uintptr
		})
		if !is || !mine(fault{err.Addr()}) {
			panic(r)
		}
	}()
	f()
	return true
}

package shm

import (
	"runtime"
	"runtime/debug"
	"unsafe"

	"github.com/efactor/efactor/actors/device"
)

// Another process can cut a file that we have mapped: touching what is not there any more
// is a fault (SIGBUS), which would end this process. A guard makes it the end of that
// mapping's use, and nothing else.

// cutMemory is what a port knows of memory in files, which can be cut: its own, and that of
// others. As long as there is none, nothing is guarded and nothing costs time.
type cutMemory struct {
	possible bool // there is such memory, or was
	own      bool // our own was cut
	reported bool // and the owner knows
}

// safely calls f, which touches segments. False: one was cut; what is lost by that is
// settled. extra is one that is not in use yet, or nil.
func (p *port) safely(f func(), extra []byte) bool {
	if !p.cut.possible {
		f()
		return true
	}
	if guarded(f, func(ft fault) bool { return p.lost(ft, extra) }) {
		return true
	}
	p.links.each(func(l *link) {
		if l.broken {
			p.lose(l)
		}
	})
	return false
}

// lost notes whose memory has faulted.
func (p *port) lost(ft fault, extra []byte) bool {
	found := ft.in(extra)
	p.links.each(func(l *link) {
		if ft.in(l.mem) {
			l.broken, found = true, true
		}
	})
	if p.seg.mem != nil && ft.in(p.seg.mem) {
		p.cut.own, found = true, true
		// Packets that are being read turn to zeroes. If that cannot be had, there is
		// no way to go on.
		return blank(p.seg.mem) == nil
	}
	return found
}

// sendSafely is Send with memory that can be cut.
func (p *port) sendSafely(wr *device.SendWR) (st device.Status) {
	if !p.safely(func() { st = p.put(wr, flagsOf(wr)) }, nil) {
		st = device.StatusBadDestQPN
	}
	return st
}

// pollSafely is Poll. When our own memory was cut it yields OpFatal, and that alone.
func (p *port) pollSafely(c []device.Completion) (n int) {
	if !p.cut.own && p.safely(func() { n = p.poll(c) }, nil) {
		return n
	}
	if !p.cut.own || p.cut.reported || len(c) == 0 {
		return 0
	}
	p.cut.reported = true
	c[0] = device.Completion{Op: device.OpFatal, Status: device.StatusQPInternal}
	return 1
}

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

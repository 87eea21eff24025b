package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
)

// A message from memory that is in no region of Alloc, such as a slice of Go's heap, is read
// where it lies, too: the reader has the kernel copy it (process_vm_readv), if the kernel lets it.
//
//   - Who connects to a segment tries that once, on the segment as its owner has it mapped, and
//     says in its entry of the sender table whether it can (readsPlain). Owners lend to those
//     alone, and others get packets. So where it is denied a peer costs a try, and no message.
//   - What is lent stands in a window. The key has a number that counts up; the reader looks for
//     it after its copy, so what it has read late, of memory that is in use again, is discarded.
//   - The owner can put a copy in the place of the memory (Relend), when the caller takes that back:
//     readers look at the place, too, and read again if it is another.
//   - If the kernel changes its mind the read ends with StatusUnsupportedOp, and the entry says so.
//
// Nobody writes to another process's memory here.

// errUnread: packets are the way then, without an allocation for each.
var errUnread = fmt.Errorf("%w: it does not read memory of this process", device.ErrNotSupported)

// errProbe: the process does not have its segment where it says.
var errProbe = errors.New("shm: the memory of the process is not what it says")

// plain is a port as one that lends plain memory and reads that of others.
type plain struct{ *port }

// thisProcess is this process to others; zero if /proc does not tell.
var thisProcess = sync.OnceValue(func() processID {
	pid := os.Getpid()
	start, err := startOf(pid)
	if err != nil || pidSpace() == 0 {
		return processID{}
	}
	return processID{pid: uint32(pid), start: start, space: pidSpace()}
})

// try finds out whether this process can read the memory of a link's, and tells it.
func (p plain) try(l *link, h *header) {
	if !p.readsPlain || !p.dev.cfg.PlainReads || h.process.pid == 0 {
		return
	}
	of, err := p.dev.views.probe(h)
	if err != nil {
		p.dev.views.denials.note("messages from plain memory of another process go by packets", err)
		return
	}
	l.of = of
	_ = p.safely(func() { l.senders[l.me].flags.Or(readsPlain) }, nil) // one that is cut is lost
}

// probe reads what is known from a process's memory. The caller must release the process.
func (vs *views) probe(h *header) (*proc, error) {
	if h.process.space != pidSpace() {
		return nil, errOtherSpace
	}
	vs.mu.Lock()
	of, err := vs.proc(h.process)
	vs.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var gen [8]byte
	err = of.copy(device.WRRead, gen[:], h.at+uint64(unsafe.Offsetof(h.gen)))
	if err == nil && binary.NativeEndian.Uint64(gen[:]) != h.gen {
		err = errProbe
	}
	if err != nil {
		of.release()
		return nil, err
	}
	return of, nil
}

// forget: the process cannot be read any more.
func (p plain) forget(l *link, err error) {
	p.dev.views.denials.note("messages from plain memory of another process go by packets from now on", err)
	of := l.of
	l.of = nil
	of.release()
	_ = p.safely(func() { l.senders[l.me].flags.And(^readsPlain) }, nil)
}

// relends bounds how often a read begins anew. Owners give a window another place once.
const relends = 8

// read carries out a read of plain memory. The kernel's copy ends with full barriers (it
// lets go of the address space), so that the looks at the window come after it.
func (p plain) read(wr *device.SendWR, l *link, g *grant) device.Status {
	if l.of == nil {
		return device.StatusUnsupportedOp
	}
	for range relends {
		at := g.window.addr.Load()
		if !g.holds() {
			break
		}
		err := l.of.copy(device.WRRead, wr.Payload, at+wr.Remote-plainAddr)
		switch {
		case errors.Is(err, errOver) || l.over(): // a queue pair that is closed leaves its windows
			return p.lose(l)
		case !g.holds():
			return device.StatusBadAddress
		case g.window.addr.Load() != at:
		case errors.Is(err, errDenied):
			p.forget(l, err)
			return device.StatusUnsupportedOp
		case err != nil:
			return p.dev.views.statusOf(err)
		default:
			return device.StatusOK
		}
	}
	return device.StatusBadAddress
}

// LendPlain implements nic.PlainLender.
func (p plain) LendPlain(to nic.Source, mem []byte) (key, addr uint64, err error) {
	l := p.links.get(to.QPN)
	if l == nil || l.gid != to.GID || !p.readBy(l) {
		return 0, 0, errUnread
	}
	key, err = newWindow(p.port, plainMemory, placeOf(mem), len(mem))
	return key, plainAddr, err
}

// readBy reports whether a link's other end says that it can read plain memory of ours.
func (p plain) readBy(l *link) (reads bool) {
	_ = p.safely(func() {
		if ident(p.rx.senders[l.entry].who.Load()) != l.id {
			l.entry = max(0, p.entryOf(l.id))
		}
		s := &p.rx.senders[l.entry]
		reads = s.flags.Load()&readsPlain != 0 && ident(s.who.Load()) == l.id
	}, nil)
	return reads
}

// Relend implements nic.PlainLender.
func (p plain) Relend(key uint64, mem []byte) (err error) {
	if !p.lent.has(key) {
		return device.ErrBadKey
	}
	w := &p.rx.windows[key%maxWindows]
	_ = p.safely(func() {
		if w.region.Load() != plainMemory || w.size.Load() != uint64(len(mem)) {
			err = device.ErrBadKey
			return
		}
		w.addr.Store(placeOf(mem))
	}, nil)
	return err
}

// placeOf is where memory begins in this process.
func placeOf(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }

// letBeRead lets any process of the user read the memory of this one, where the Yama security module
// asks for that.
func letBeRead() {
	_ = unix.Prctl(unix.PR_SET_PTRACER, uintptr(unix.PR_SET_PTRACER_ANY), 0, 0, 0) // EINVAL: it does not ask
}

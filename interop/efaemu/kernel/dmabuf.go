//go:build linux

package kernel

import (
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/memory"
)

// dmaBuf is a file that stands for memory of another device, mapped here: a dma-buf that can
// be mapped (udmabuf), or a memfd, of which a kernel would say that it is none.
type dmaBuf struct {
	mapped, length uint64 // whole pages
	start          uint64 // of the region in them
}

// mapBuffer maps the n bytes from off on of a descriptor, at iova: others' requests name the
// region by that, and the engine's fabric by its address. Where something else is, it is
// mapped elsewhere, and others do not reach it. EINVAL: that is no memory, or too short.
func mapBuffer(fd int, off, n, iova uint64) (*dmaBuf, unix.Errno) {
	page := uint64(os.Getpagesize())
	in := off % page
	length := (in + n + page - 1) &^ (page - 1)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || n == 0 || n > math.MaxInt32 || off > math.MaxInt64-n || uint64(st.Size) < off+n {
		return nil, unix.EINVAL
	}
	at, e := uintptr(0), unix.Errno(0)
	for _, fixed := range []uintptr{unix.MAP_FIXED_NOREPLACE, 0} {
		at, _, e = unix.Syscall6(unix.SYS_MMAP, uintptr(iova-in), uintptr(length), unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED|fixed, uintptr(fd), uintptr(off-in))
		if e == 0 {
			return &dmaBuf{uint64(at), length, uint64(at) + in}, 0
		}
	}
	return nil, unix.EINVAL
}

// unmap gives up the mapping.
func (b *dmaBuf) unmap() {
	if b != nil {
		_, _, _ = unix.Syscall(unix.SYS_MUNMAP, uintptr(b.mapped), uintptr(b.length), 0)
	}
}

// buffer takes the descriptor of the command and maps it.
func (l *call) buffer() (*dmaBuf, unix.Errno) {
	n := int32(l.u32(abi.DMABufFD))
	if n < 0 {
		return nil, unix.EBADF
	}
	fd, err := l.task.GetFD(int(n))
	if err != nil {
		return nil, unix.EBADF
	}
	defer unix.Close(fd)
	return mapBuffer(fd, l.u64(abi.DMABufOffset), l.u64(abi.DMABufLength), l.u64(abi.DMABufIOVA))
}

// dmaBufRights are the rights that the command asks for.
func (l *call) dmaBufRights() (device.Access, unix.Errno) {
	access, e := l.flags(abi.DMABufAccess,
		abi.AccessLocalWrite|abi.AccessRemoteWrite|abi.AccessRemoteRead|abi.AccessRemoteAtomic|abi.AccessOptional)
	if e != 0 {
		return 0, e
	}
	if e := coreAccess(access); e != 0 {
		return 0, e
	}
	if (l.u64(abi.DMABufOffset)^l.u64(abi.DMABufIOVA))&uint64(os.Getpagesize()-1) != 0 {
		return 0, unix.EINVAL
	}
	return l.c.dev.access(access)
}

func (l *call) regDMABuf() unix.Errno {
	rights, e := l.dmaBufRights()
	if e != 0 {
		return e
	}
	p := l.get(abi.DMABufPD).obj.(*pd)
	if e := l.own(p); e != 0 {
		return e
	}
	buf, e := l.buffer()
	if e != 0 {
		return e
	}
	d := l.c.dev
	if e := d.take(&d.live.MRs, d.cfg.Profile.MaxMR); e != 0 {
		buf.unmap()
		return e
	}
	eng, err := p.eng.RegisterIn(memory.Self(), buf.start, l.u64(abi.DMABufLength), l.u64(abi.DMABufIOVA), rights)
	if err != nil {
		buf.unmap()
		d.give(&d.live.MRs)
		return errno(err)
	}
	p.users++
	l.made = &mr{pd: p, eng: eng, buf: buf}
	if e := l.out(abi.DMABufLKey, le.AppendUint32(nil, eng.LKey())); e != 0 {
		return e
	}
	return l.out(abi.DMABufRKey, le.AppendUint32(nil, eng.RKey()))
}

//go:build linux

package kernel

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/engine"
	"github.com/efactor/efactor/interop/efaemu/profile"
)

// mr is a memory region.
type mr struct {
	pd  *pd
	eng *engine.MR
	buf *dmaBuf // nil: it is memory of the program's
	n   uint64  // bytes
}

func (*mr) kind() uint16 { return abi.ObjectMR }
func (*mr) busy() bool   { return false }

func (m *mr) close(Task) {
	m.eng.Close()
	m.buf.unmap()
	m.pd.users--
	m.pd.c.dev.give(&m.pd.c.dev.live.MRs)
	m.pd.c.dev.cfg.Faults.Unlock(m.n)
}

// coreAccess are the core's rules for rights.
func coreAccess(a uint32) unix.Errno {
	switch {
	case a&(abi.AccessRemoteWrite|abi.AccessRemoteAtomic) != 0 && a&abi.AccessLocalWrite == 0:
		return unix.EINVAL
	case a&^(abi.AccessCoreKnown|abi.AccessOptional) != 0:
		return unix.EINVAL
	case a&abi.AccessOnDemand != 0:
		return unix.EOPNOTSUPP
	}
	return 0
}

// access returns the rights that the driver grants: the device's abilities, without
// the optional bits.
func (d *Device) access(a uint32) (device.Access, unix.Errno) {
	p := &d.cfg.Profile
	known := uint32(abi.AccessLocalWrite)
	if p.RDMARead {
		known |= abi.AccessRemoteRead
	}
	if p.RDMAWrite && p.Kernel >= profile.Newest {
		known |= abi.AccessRemoteWrite
	}
	if a&^abi.AccessOptional&^known != 0 {
		return 0, unix.EOPNOTSUPP
	}
	var rights device.Access
	if a&abi.AccessLocalWrite != 0 {
		rights |= device.LocalWrite
	}
	if a&abi.AccessRemoteWrite != 0 {
		rights |= device.RemoteWrite
	}
	if a&abi.AccessRemoteRead != 0 {
		rights |= device.RemoteRead
	}
	return rights, 0
}

func (l *call) regMR() unix.Errno {
	in, e := l.core(abi.RegMRLen)
	if e != 0 {
		return e
	}
	var cmd abi.RegMR
	_ = cmd.Parse(in)
	if (cmd.Start^cmd.IOVA)&uint64(os.Getpagesize()-1) != 0 {
		return unix.EINVAL
	}
	if e := l.begin(); e != 0 {
		return e
	}
	if e := coreAccess(cmd.Access); e != 0 {
		return e
	}
	p, e := l.pdOf(cmd.PD)
	if e != 0 {
		return e
	}
	if e := l.noUdata(); e != 0 {
		return e
	}
	d := l.c.dev
	rights, e := d.access(cmd.Access)
	if e != 0 {
		return e
	}
	if e := l.mapped(cmd.Start, cmd.Length, rights&(device.LocalWrite|device.RemoteWrite) != 0); e != 0 {
		return e
	}
	if e := l.own(p); e != 0 {
		return e
	}
	if e := d.take(&d.live.MRs, d.cfg.Profile.MaxMR); e != 0 {
		return e
	}
	if !d.cfg.Faults.Lock(cmd.Length) {
		d.give(&d.live.MRs)
		return unix.ENOMEM // RLIMIT_MEMLOCK
	}
	eng, err := p.eng.Register(cmd.Start, cmd.Length, cmd.IOVA, rights)
	if err != nil {
		d.give(&d.live.MRs)
		d.cfg.Faults.Unlock(cmd.Length)
		return errno(err)
	}
	p.users++
	l.made = &mr{pd: p, eng: eng, n: cmd.Length}
	resp := abi.RegMRResp{Handle: l.handle, LKey: eng.LKey(), RKey: eng.RKey()}
	return l.outAll(abi.InvokeCoreOut, resp.Append(nil))
}

// mapped reports whether there is memory at start that may be written, if write is set:
// a kernel would pin all of it. Where memory can't be asked, its ends must do.
func (l *call) mapped(start, n uint64, write bool) unix.Errno {
	page := uint64(os.Getpagesize())
	end := start + n
	if n == 0 || end < start || (end+page-1)&^(page-1) < end {
		return unix.EINVAL
	}
	var b [1]byte
	if l.mem.ReadAt(b[:], start) != nil || l.mem.ReadAt(b[:], end-1) != nil {
		return unix.EFAULT
	}
	m, ok := l.mem.(interface {
		Mapped(addr, n uint64, write bool) error
	})
	if ok && m.Mapped(start, n, write) != nil {
		return unix.EFAULT
	}
	return 0
}

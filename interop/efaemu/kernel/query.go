//go:build linux

package kernel

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/profile"
)

// getContext makes the program's ucontext; there is one for each open.
func (l *call) getContext() unix.Errno {
	p := &l.c.dev.cfg.Profile
	if e := l.out(abi.ContextCompVectors, le.AppendUint32(nil, p.CompVectors)); e != 0 {
		return e
	}
	if e := l.out(abi.ContextCoreSupport, le.AppendUint64(nil, abi.CoreOptionalAccess)); e != 0 {
		return e
	}
	if l.c.have {
		return unix.EINVAL
	}
	b, e := l.in(abi.AttrUHWIn, abi.ContextCmdLen) // fields that the driver doesn't know are no mistake
	if e != 0 {
		return e
	}
	var cmd abi.ContextCmd
	_ = cmd.Parse(b)
	if p.MaxTxBatch != 0 && cmd.Caps&abi.CapTxBatch == 0 || p.MinSQ != 0 && cmd.Caps&abi.CapMinSQ == 0 {
		return unix.EOPNOTSUPP
	}
	resp := abi.ContextResp{
		Udata:  abi.UdataQueryDevice | abi.UdataCreateAH,
		SubCQs: p.SubCQs, Inline: p.Inline, MaxLLQ: p.MaxLLQ,
		MaxTxBatch: p.MaxTxBatch, MinSQ: p.MinSQ,
	}
	if p.Kernel >= profile.Newest {
		resp.InlineEx = p.InlineEx
	}
	if e := l.out(abi.AttrUHWOut, resp.Append(nil)); e != 0 {
		return e
	}
	l.c.have = true
	return 0
}

// queryDevice is both forms of the command: the old one gets the first part.
func (l *call) queryDevice() unix.Errno {
	if !l.c.have {
		return unix.EINVAL
	}
	extended := uint32(l.u64(abi.InvokeWriteCmd)) == abi.CmdQueryDeviceEx
	if extended {
		in, e := l.core(abi.ExCmdLen)
		if e != 0 {
			return e
		}
		if le.Uint64(in) != 0 {
			return unix.EINVAL
		}
		if e := l.noUdata(); e != 0 {
			return e
		}
	}
	p := &l.c.dev.cfg.Profile
	core := abi.DeviceAttr{
		MaxMRSize: 1 << 40, PageSizeCap: 0xfffff000,
		VendorID: abi.VendorAmazon, PartID: p.PartID, HwVer: p.PartID,
		MaxQP: p.MaxQP, MaxQPWR: p.MaxQPWR, MaxSGE: uint32(min(p.MaxSGESQ, p.MaxSGERQ)),
		MaxCQ: p.MaxCQ, MaxCQE: p.MaxCQE, MaxMR: p.MaxMR, MaxPD: p.MaxPD, MaxAH: p.MaxAH,
		MaxPkeys: 1, Ports: 1,
		ResponseLength: uint32(min(abi.DeviceAttrLen, l.size(abi.InvokeCoreOut))),
	}
	if p.RDMARead || p.RDMAWrite {
		core.MaxSGERd = 1
	}
	if !extended {
		return l.outAll(abi.InvokeCoreOut, core.Append(nil)[:abi.DeviceAttrBaseLen])
	}
	resp := abi.DeviceResp{
		MaxSQ: p.MaxSQ, MaxRQ: p.MaxRQ, MaxSGESQ: p.MaxSGESQ, MaxSGERQ: p.MaxSGERQ,
		MaxRDMA: p.MaxRDMA, Caps: l.c.dev.caps(),
	}
	if e := l.out(abi.AttrUHWOut, resp.Append(nil)); e != 0 {
		return e
	}
	return l.outAll(abi.InvokeCoreOut, core.Append(nil))
}

// caps are the device's capability bits, as far as the kernel knows them.
func (d *Device) caps() uint32 {
	p := &d.cfg.Profile
	var caps uint32
	for _, c := range []struct {
		has bool
		bit uint32
	}{
		{p.RDMARead, abi.DeviceRDMARead},
		{p.RNRRetry, abi.DeviceRNRRetry},
		{p.Notify, abi.DeviceNotify},
		{p.SGID, abi.DeviceSGID},
		{p.Kernel >= profile.Newest && p.RDMAWrite, abi.DeviceRDMAWrite},
		{p.Kernel >= profile.Newest && p.UnsolicitedWrite, abi.DeviceUnsolicitedWrite},
	} {
		if c.has {
			caps |= c.bit
		}
	}
	return caps
}

func (l *call) queryPort() unix.Errno {
	if !l.c.have {
		return unix.EINVAL
	}
	port, e := l.number(abi.QueryPortNumber, math.MaxUint8)
	if e != 0 {
		return e
	}
	if port != abi.PortNumber {
		return unix.EINVAL
	}
	mtu := l.c.dev.cfg.Info.MTU
	resp := abi.PortAttr{
		MaxMsg: uint32(mtu), GIDTable: 1, PkeyTable: 1, State: abi.PortActive,
		MaxMTU: mtuEnum(mtu), ActiveMTU: mtuEnum(mtu), LMC: 1, MaxVL: 1,
		Width: 2, Speed: 32, PhysState: abi.PortLinkUp, // 4 lanes, EDR
	}
	if l.c.dev.cfg.Faults.Down() {
		resp.State = abi.PortDown
	}
	return l.outAll(abi.QueryPortResp, resp.Append(nil))
}

// mtuEnum is the largest of verbs' sizes (256 is 1, 512 is 2 and so on to 4096)
// that fits.
func mtuEnum(mtu int) uint8 {
	e := uint8(1)
	for size := 512; size <= min(mtu, 4096); size *= 2 {
		e++
	}
	return e
}

func (l *call) queryGID() unix.Errno {
	if _, e := l.flags(abi.GIDEntryFlags, 0); e != 0 {
		return e
	}
	port, e := l.number(abi.GIDEntryPort, math.MaxUint32)
	if e != 0 {
		return e
	}
	index, e := l.number(abi.GIDEntryIndex, math.MaxUint32)
	if e != 0 {
		return e
	}
	if !l.c.have || port != abi.PortNumber || index != 0 {
		return unix.EINVAL
	}
	resp := abi.GIDEntry{GID: l.c.dev.cfg.Info.GID, Port: abi.PortNumber}
	return l.outAll(abi.GIDEntryResp, resp.Append(nil))
}

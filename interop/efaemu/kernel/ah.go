//go:build linux

package kernel

import (
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/engine"
)

// ah is an address handle. Those of one GID in a protection domain share the
// device's number, and count once against its limit.
type ah struct {
	pd  *pd
	eng *engine.AH
	gid device.GID
}

func (*ah) kind() uint16 { return abi.ObjectAH }
func (*ah) busy() bool   { return false }

func (a *ah) close(Task) {
	a.eng.Close()
	a.pd.users--
	a.pd.ahs[a.gid]--
	if a.pd.ahs[a.gid] == 0 {
		delete(a.pd.ahs, a.gid)
		a.pd.c.dev.give(&a.pd.c.dev.live.AHs)
	}
}

func (l *call) createAH() unix.Errno {
	in, e := l.core(abi.CreateAHLen)
	if e != 0 {
		return e
	}
	var cmd abi.CreateAH
	_ = cmd.Parse(in)
	if cmd.Port != abi.PortNumber {
		return unix.EINVAL
	}
	if e := l.begin(); e != 0 {
		return e
	}
	p, e := l.pdOf(cmd.PD)
	if e != 0 {
		return e
	}
	if cmd.IsGlobal == 0 { // the driver takes the GID from a part that isn't there then
		cmd.GID, cmd.SGIDIndex = [16]byte{}, 0
	}
	if cmd.SGIDIndex != 0 {
		return unix.EINVAL
	}
	if e := l.noUdata(); e != 0 {
		return e
	}
	if cmd.Reserved1 != 0 || cmd.ReservedGRH != 0 || cmd.Reserved2 != 0 {
		l.c.found("reserved", l.where(), "create AH: reserved bytes are not 0")
	}
	gid := device.GID(cmd.GID)
	if gid == (device.GID{}) { // the device refuses it
		return unix.EINVAL
	}
	d := l.c.dev
	if p.ahs[gid] == 0 {
		if e := d.take(&d.live.AHs, d.cfg.Profile.MaxAH); e != 0 {
			return e
		}
	}
	eng, err := p.eng.CreateAH(gid)
	if err != nil {
		if p.ahs[gid] == 0 {
			d.give(&d.live.AHs)
		}
		return errno(err)
	}
	p.users++
	p.ahs[gid]++
	l.made = &ah{pd: p, eng: eng, gid: gid}
	resp := abi.CreateAHResp{Number: eng.Number()}
	if e := l.out(abi.AttrUHWOut, resp.Append(nil)); e != 0 {
		return e
	}
	return l.outAll(abi.InvokeCoreOut, le.AppendUint32(nil, l.handle))
}

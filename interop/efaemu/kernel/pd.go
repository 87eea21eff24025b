//go:build linux

package kernel

import (
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/engine"
	"github.com/efactor/efactor/interop/efaemu/memory"
)

// pd is a protection domain.
type pd struct {
	c     *Context
	eng   *engine.PD
	space memory.Space // of the program that made it
	users int
	ahs   map[device.GID]int
}

func (*pd) kind() uint16 { return abi.ObjectPD }
func (p *pd) busy() bool { return p.users > 0 }

func (p *pd) close(Task) {
	p.eng.Close()
	p.c.dev.give(&p.c.dev.live.PDs)
}

func (l *call) allocPD() unix.Errno {
	if e := l.begin(); e != 0 {
		return e
	}
	if e := l.noUdata(); e != 0 {
		return e
	}
	d := l.c.dev
	if e := d.take(&d.live.PDs, d.cfg.Profile.MaxPD); e != 0 {
		return e
	}
	p := &pd{c: l.c, eng: d.cfg.Engine.NewPD(l.mem), space: l.mem, ahs: make(map[device.GID]int)}
	l.made = p
	resp := abi.AllocPDResp{Number: p.eng.Number()}
	if e := l.out(abi.AttrUHWOut, resp.Append(nil)); e != 0 {
		return e
	}
	return l.outAll(abi.InvokeCoreOut, le.AppendUint32(nil, l.handle))
}

// pdOf finds a command's protection domain.
func (l *call) pdOf(h uint32) (*pd, unix.Errno) {
	o, e := l.named(h, abi.ObjectPD)
	if e != 0 {
		return nil, e
	}
	return o.(*pd), 0
}

// own reports whether the caller is the process that made p: the engine reaches
// the memory of that one. A kernel would take the caller's.
func (l *call) own(p *pd) unix.Errno {
	if l.mem.PID() == p.space.PID() {
		return 0
	}
	l.c.found("other-process", l.where(), "a protection domain of process %d used by %d", p.space.PID(), l.mem.PID())
	return unix.EOPNOTSUPP
}

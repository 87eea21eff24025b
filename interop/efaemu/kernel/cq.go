//go:build linux

package kernel

import (
	"math/bits"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/engine"
	"github.com/efactor/efactor/interop/efaemu/profile"
)

// cq is a completion queue.
type cq struct {
	c        *Context
	eng      *engine.CQ
	entries  uint32
	depth    uint64 // entries that the queues on it may fill
	users    int
	ring, db *region
	channel  *eventFile // nil: none
	events   *eventFile // asynchronous; nil: none
	sent     atomic.Uint32
	reported uint32 // when destroyed: events that the program has read
}

func (*cq) kind() uint16 { return abi.ObjectCQ }
func (q *cq) busy() bool { return q.users > 0 }

func (q *cq) close(t Task) {
	q.c.checkMaps(t, q.ring, q.db)
	if q.eng != nil {
		q.eng.Close() // no event comes afterwards
	}
	if q.channel != nil {
		q.reported = q.sent.Load() - q.channel.takeBack(q)
		q.channel.users--
	}
	if q.events != nil {
		q.events.users--
	}
	q.c.unmap(q.ring, q.db)
	q.c.dev.give(&q.c.dev.live.CQs)
}

// cqSpec reads and checks the driver's part of a new completion queue.
func (l *call) cqSpec(entries uint32) (cmd abi.CreateCQ, e unix.Errno) {
	p := &l.c.dev.cfg.Profile
	if entries < 1 || entries > p.MaxCQE {
		return cmd, unix.EINVAL
	}
	b, e := l.udata(10, abi.CreateCQLen) // up to the sub-CQs
	if e != 0 {
		return cmd, e
	}
	_ = cmd.Parse(b)
	switch {
	case cmd.CompMask != 0 || cmd.Reserved != [5]byte{}:
		return cmd, unix.EINVAL
	case cmd.EntrySize != 32 && (cmd.EntrySize != 16 || cmd.Flags&abi.CQSGID != 0):
		return cmd, unix.EINVAL
	case cmd.SubCQs != p.SubCQs:
		return cmd, unix.EINVAL
	case cmd.Flags&abi.CQWideIDs != 0 && p.Kernel >= profile.Newest:
		return cmd, unix.EOPNOTSUPP // the device hasn't DeviceWideIDs
	case cmd.Flags&abi.CQChannel != 0 && !p.Notify, cmd.Flags&abi.CQSGID != 0 && !p.SGID:
		return cmd, unix.EINVAL // "illegal parameter" of the device
	case bits.OnesCount32(entries) != 1:
		return cmd, unix.EINVAL // of the device, too
	}
	if rest := cmd.Flags &^ (abi.CQChannel | abi.CQSGID); rest != 0 {
		l.c.found("cq-flags", l.where(), "flags %#x are not known", rest)
	}
	return cmd, 0
}

func (l *call) createCQ() unix.Errno {
	c, d := l.c, l.c.dev
	entries, p := l.u32(abi.CreateCQEntries), &d.cfg.Profile
	flags, e := l.flags(abi.CreateCQFlags, 1<<0|1<<1) // timestamps, ignore overrun
	if e != 0 {
		return e
	}
	if l.u32(abi.CreateCQVector) >= p.CompVectors {
		return unix.EINVAL
	}
	if flags != 0 {
		return unix.EOPNOTSUPP
	}
	cmd, e := l.cqSpec(entries)
	if e != 0 {
		return e
	}
	q := &cq{c: c, entries: entries}
	if v := l.get(abi.CreateCQChannel); v != nil {
		q.channel = v.file
	}
	if wants := cmd.Flags&abi.CQChannel != 0; wants != (q.channel != nil) {
		c.found("cq-channel", l.where(), "channel given: %t, flag: %t", !wants, wants)
	}
	if e := d.take(&d.live.CQs, p.MaxCQ); e != 0 {
		return e
	}
	l.made = q
	cfg := engine.CQConfig{
		Entries: int(entries), EntrySize: int(cmd.EntrySize), SubCQs: int(cmd.SubCQs),
		SGID: cmd.Flags&abi.CQSGID != 0,
	}
	if q.channel != nil {
		q.channel.users++
	}
	if v := l.get(abi.CreateCQAsync); v != nil {
		q.events = v.file
		q.events.users++
	}
	if q.channel != nil && cmd.Flags&abi.CQChannel != 0 {
		record := le.AppendUint64(nil, l.u64(abi.CreateCQUserHandle))
		ch := q.channel
		cfg.Notify = func() {
			q.sent.Add(1)
			ch.send(record, q)
		}
	}
	size := uint64(cmd.EntrySize) * uint64(entries) * uint64(cmd.SubCQs)
	if q.ring = c.mapRegion(l.task, "CQ ring", size, unix.PROT_READ); q.ring == nil {
		return unix.ENOMEM
	}
	cfg.Ring = c.arena.bytes(q.ring)[:size:size]
	resp := abi.CreateCQResp{Key: q.ring.Key, Size: q.ring.Length, Index: uint16(l.handle)}
	if p.Notify {
		if q.db = c.mapRegion(l.task, "CQ doorbell", 1, unix.PROT_WRITE); q.db == nil {
			return unix.ENOMEM
		}
		resp.CompMask, resp.DoorbellKey = abi.CQHasDoorbell, q.db.Key
		resp.DoorbellOff = doorbellOff(cqDoorbell, l.handle)
		cfg.Doorbell = c.arena.bytes(q.db)[resp.DoorbellOff:][:4]
	}
	q.eng = d.cfg.Engine.NewCQ(cfg)
	if e := l.out(abi.AttrUHWOut, resp.Append(nil)); e != 0 {
		return e
	}
	return l.out(abi.CreateCQRespDepth, le.AppendUint32(nil, entries))
}

func (l *call) destroyedCQ() unix.Errno {
	q := l.args[0].obj.(*cq)
	resp := abi.DestroyCQResp{CompEvents: q.reported}
	return l.outAll(abi.DestroyResp, resp.Append(nil))
}

// Doorbells lie somewhere in their page, as on hardware, so that a program must
// heed their offsets.
const (
	sqDoorbell = 0x10
	rqDoorbell = 0x90
	cqDoorbell = 0x110
)

func doorbellOff(base, handle uint32) uint32 { return base + handle%8*16 }

// mapRegion takes n bytes of the device file.
func (c *Context) mapRegion(t Task, name string, n uint64, prot int) *region {
	r := c.arena.alloc(t, name, n, prot)
	if r != nil {
		c.dev.mapped(r.Length, true)
	}
	return r
}

// unmap gives regions back; nil ones are none.
func (c *Context) unmap(regions ...*region) {
	for _, r := range regions {
		if r != nil {
			c.arena.giveBack(r)
			c.dev.mapped(r.Length, false)
		}
	}
}

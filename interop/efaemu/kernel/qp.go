//go:build linux

package kernel

import (
	"math/bits"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/engine"
	"github.com/efactor/efactor/interop/efaemu/profile"
)

// qp is a queue pair.
type qp struct {
	c          *Context
	pd         *pd
	send, recv *cq
	eng        *engine.QP
	events     *eventFile // asynchronous; nil: none

	driver   bool // SRD, not UD
	caps     abi.QPCap
	state    abi.QPState
	qkey     uint32
	psn      uint32
	rnrRetry uint8

	rq, rqDB, sq, sqDB *region
}

func (*qp) kind() uint16 { return abi.ObjectQP }
func (*qp) busy() bool   { return false }

func (q *qp) close(t Task) {
	q.c.checkMaps(t, q.rqDB, q.rq, q.sqDB, q.sq)
	if q.eng != nil {
		q.eng.Close() // nothing touches the queues afterwards
	}
	if q.events != nil {
		q.events.users--
	}
	q.pd.users--
	q.send.users--
	q.recv.users--
	q.send.depth -= fewest(q.caps.MaxSendWR)
	q.recv.depth -= fewest(q.caps.MaxRecvWR)
	q.c.unmap(q.rqDB, q.rq, q.sqDB, q.sq)
	q.c.dev.give(&q.c.dev.live.QueuePairs)
}

// parents finds the objects in the attributes, with the core's rules.
func (l *call) parents(q *qp) unix.Errno {
	kind, e := l.number(abi.CreateQPType, 1<<32-1)
	if e != 0 {
		return e
	}
	switch kind {
	case abi.QPTypeDriver, abi.QPTypeUD, abi.QPTypeRC, abi.QPTypeUC, abi.QPTypeXRCInitiator:
	case abi.QPTypeRawPacket: // no process has CAP_NET_RAW
		return unix.EPERM
	default: // the targets of XRC need a domain, which cannot exist
		return unix.EINVAL
	}
	for _, id := range []uint16{abi.CreateQPPD, abi.CreateQPSendCQ, abi.CreateQPRecvCQ} {
		if l.get(id) == nil && (id != abi.CreateQPRecvCQ || kind != abi.QPTypeXRCInitiator) {
			return unix.ENOENT
		}
	}
	flags, e := l.flags(abi.CreateQPFlags, abi.QPFlagsKnown)
	if e != 0 {
		return e
	}
	rest := flags &^ abi.QPAllSignalled
	if rest != 0 && kind != abi.QPTypeDriver && kind != abi.QPTypeUD {
		return unix.EINVAL
	}
	const ofRawPackets = 1<<8 | 1<<9 // scatter FCS, strip VLAN tags
	if rest&ofRawPackets != 0 && kind == abi.QPTypeUD {
		return unix.EINVAL
	}
	if kind != abi.QPTypeDriver && kind != abi.QPTypeUD { // the driver's part begins here
		return unix.EOPNOTSUPP
	}
	q.driver = kind == abi.QPTypeDriver
	if e := l.checkCaps(&q.caps); e != 0 {
		return e
	}
	if rest != 0 || l.get(abi.CreateQPSourceQPN) != nil {
		return unix.EOPNOTSUPP
	}
	q.pd = l.get(abi.CreateQPPD).obj.(*pd)
	q.send = l.get(abi.CreateQPSendCQ).obj.(*cq)
	q.recv = l.get(abi.CreateQPRecvCQ).obj.(*cq)
	return l.own(q.pd)
}

// checkCaps are the driver's limits.
func (l *call) checkCaps(c *abi.QPCap) unix.Errno {
	p := &l.c.dev.cfg.Profile
	if c.MaxSendWR > p.MaxSQ || c.MaxRecvWR > p.MaxRQ ||
		c.MaxSendSGE > uint32(p.MaxSGESQ) || c.MaxRecvSGE > uint32(p.MaxSGERQ) ||
		c.MaxInline > uint32(max(p.Inline, p.InlineEx)) {
		return unix.EINVAL
	}
	return 0
}

// qpSpec reads and checks the driver's part of a new queue pair.
func (l *call) qpSpec() (cmd abi.CreateQP, e unix.Errno) {
	p, n := &l.c.dev.cfg.Profile, abi.CreateQPLen
	if p.Kernel == profile.Linux61 {
		n = abi.CreateQPLen61
	}
	b, e := l.udata(abi.CreateQPLen61, n)
	if e != 0 {
		return cmd, e
	}
	_ = cmd.Parse(append(b, make([]byte, abi.CreateQPLen-n)...))
	known := uint16(0)
	if p.UnsolicitedWrite {
		known = abi.QPUnsolicitedWrite
	}
	switch {
	case cmd.CompMask != 0 || cmd.Reserved != [5]byte{}:
		return cmd, unix.EINVAL
	case cmd.Flags&^known != 0 || cmd.DriverType != abi.DriverQPTypeSRD:
		return cmd, unix.EOPNOTSUPP
	case cmd.ServiceLevel != 0 && cmd.ServiceLevel != abi.ServiceLowLatency:
		return cmd, unix.EINVAL
	}
	return cmd, 0
}

// geometry is how the sizes of the rings and the depths fit together; the device
// refuses those that don't ("depth rules").
type geometry struct{ wqe, sq, rq uint32 }

func (d *Device) geometry(caps *abi.QPCap, cmd *abi.CreateQP) (g geometry, ok bool) {
	p := &d.cfg.Profile
	g.sq = roundUp(max(caps.MaxSendWR, uint32(p.MinSQ)))
	switch {
	case caps.MaxSendWR == 0 && cmd.SQSize == 0: // it never sends: one slot, out of sight
		g.sq, g.wqe = 1, 64
	case cmd.SQSize == g.sq*64:
		g.wqe = 64
	case cmd.SQSize == g.sq*128 && p.InlineEx > 0:
		g.wqe = 128
	default:
		return g, false
	}
	if caps.MaxInline > uint32(p.Inline) && g.wqe == 64 || cmd.SQSize > p.MaxLLQ {
		return g, false
	}
	if n := caps.MaxRecvWR * caps.MaxRecvSGE; n > 0 {
		g.rq = roundUp(n)
	}
	return g, cmd.RQSize == g.rq*16 && g.rq <= roundUp(p.MaxRQ)
}

// fewest is the least number of work requests that a program may have requested
// whose library made a queue of n: libefa rounds up, and does not report it.
func fewest(n uint32) uint64 {
	if n > 2 && bits.OnesCount32(n) == 1 {
		return uint64(n/2 + 1)
	}
	return uint64(n)
}

// roundUp is the power of two that is n or the next above it; n is small.
func roundUp(n uint32) uint32 { return 1 << bits.Len32(max(n, 1)-1) }

func (l *call) createQP() unix.Errno {
	q := &qp{c: l.c}
	b, e := l.in(abi.CreateQPCaps, abi.QPCapLen)
	if e != 0 {
		return e
	}
	_ = q.caps.Parse(b)
	if e := l.parents(q); e != 0 {
		return e
	}
	cmd, e := l.qpSpec()
	if e != 0 {
		return e
	}
	d := l.c.dev
	g, ok := d.geometry(&q.caps, &cmd)
	if !ok {
		return unix.EINVAL
	}
	if e := d.take(&d.live.QueuePairs, d.cfg.Profile.MaxQP); e != 0 {
		return e
	}
	q.pd.users++
	q.send.users++
	q.recv.users++
	q.send.depth += fewest(q.caps.MaxSendWR)
	q.recv.depth += fewest(q.caps.MaxRecvWR)
	if v := l.get(abi.CreateQPAsync); v != nil {
		q.events = v.file
		q.events.users++
	}
	l.made = q
	for _, c := range []*cq{q.send, q.recv} {
		if c.depth > uint64(c.entries) {
			l.c.found("cq-overflow", l.where(), "a CQ of %d entries for at least %d work requests", c.entries, c.depth)
			break
		}
	}
	resp, e := q.open(l, &cmd, g)
	if e != 0 {
		return e
	}
	if e := l.out(abi.AttrUHWOut, resp.Append(nil)); e != 0 {
		return e
	}
	if e := l.outAll(abi.CreateQPRespCaps, q.caps.Append(nil)); e != 0 {
		return e
	}
	return l.out(abi.CreateQPRespNumber, le.AppendUint32(nil, uint32(q.eng.Number())))
}

// open takes the memory and makes the engine's queue pair.
func (q *qp) open(l *call, cmd *abi.CreateQP, g geometry) (r abi.CreateQPResp, e unix.Errno) {
	c, t := q.c, l.task
	r.LLQOff = 256 * (1 + l.handle%3) // must be heeded, as doorbells' must
	r.SQDoorbellOff = doorbellOff(sqDoorbell, l.handle)
	r.SendSubCQ = 0
	r.RecvSubCQ = c.dev.cfg.Profile.SubCQs - 1
	if q.sq = c.mapRegion(t, "LLQ", uint64(r.LLQOff)+uint64(cmd.SQSize), unix.PROT_WRITE); q.sq == nil {
		return r, unix.ENOMEM
	}
	if q.sqDB = c.mapRegion(t, "SQ doorbell", 1, unix.PROT_WRITE); q.sqDB == nil {
		return r, unix.ENOMEM
	}
	r.LLQKey, r.SQDoorbellKey = q.sq.Key, q.sqDB.Key
	cfg := engine.QPConfig{
		PD: q.pd.eng, SendCQ: q.send.eng, RecvCQ: q.recv.eng,
		SendSub: int(r.SendSubCQ), RecvSub: int(r.RecvSubCQ),
		SQ: c.arena.bytes(q.sq)[r.LLQOff:][:g.sq*g.wqe], SQEntries: int(g.sq), WQESize: int(g.wqe),
		SQDoorbell:       c.arena.bytes(q.sqDB)[r.SQDoorbellOff:][:4],
		RQEntries:        int(g.rq),
		MaxRecvSGE:       int(q.caps.MaxRecvSGE),
		UnsolicitedWrite: cmd.Flags&abi.QPUnsolicitedWrite != 0,
		Datagram:         !q.driver,
		Space:            q.pd.space,
	}
	if g.rq > 0 {
		if q.rqDB = c.mapRegion(t, "RQ doorbell", 1, unix.PROT_WRITE); q.rqDB == nil {
			return r, unix.ENOMEM
		}
		if q.rq = c.mapRegion(t, "RQ ring", uint64(cmd.RQSize), unix.PROT_WRITE); q.rq == nil {
			return r, unix.ENOMEM
		}
		r.RQDoorbellOff = doorbellOff(rqDoorbell, l.handle)
		r.RQDoorbellKey, r.RQKey, r.RQSize = q.rqDB.Key, q.rq.Key, q.rq.Length
		cfg.RQ = c.arena.bytes(q.rq)[:cmd.RQSize]
		cfg.RQDoorbell = c.arena.bytes(q.rqDB)[r.RQDoorbellOff:][:4]
	}
	eng, err := c.dev.cfg.Engine.NewQP(cfg)
	if err != nil {
		return r, errno(err)
	}
	q.eng = eng
	return r, 0
}

// destroyedQP reports no asynchronous events: there are none of queue pairs.
func (l *call) destroyedQP() unix.Errno {
	return l.out(abi.DestroyResp, make([]byte, abi.DestroyQPRespLen))
}

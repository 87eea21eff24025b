package engine_test

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/engine"
	"github.com/efactor/efactor/interop/efaemu/memory"
)

// prog plays a program and its library: it writes queues and reads completions as
// they do, with memory of its own.
type prog struct {
	t   testing.TB
	w   *world
	e   *engine.Engine
	gid device.GID
	mem *space
	pd  *engine.PD
	mr  *engine.MR // all of mem
	cq  *engine.CQ
	qp  *engine.QP
	cfg engine.QPConfig
	cqc engine.CQConfig

	spc, rpc uint32 // producer counts
	ccount   []uint32
	consumed uint32
	sn       uint8
	events   int
	told     func() // of each
	next     uint64 // free memory
	qkey     uint32
}

type progConfig struct {
	pid               int
	sq, rq, cq        int // entries; 0: 8, 8, 64
	wide              bool
	cqe               int // bytes; 0: 32
	subs              int // 0: 1
	memory            int // bytes; 0: 1 MiB
	noSGID, noBell    bool
	sges              int // of a receive; 0: 2
	access            device.Access
	unsolicited, lazy bool // lazy: stays in RESET
	datagram          bool
	rnr               uint8
	self              bool // its memory is read and written by the kernel
}

func def(v *int, n int) {
	if *v == 0 {
		*v = n
	}
}

func bell(b []byte, w uint32) { atomic.StoreUint32((*uint32)(unsafe.Pointer(&b[0])), w) }

// newProg makes a program with one of each object.
func (w *world) newProg(e *engine.Engine, c progConfig) *prog {
	w.t.Helper()
	def(&c.sq, 8)
	def(&c.rq, 8)
	def(&c.cq, 64)
	def(&c.cqe, 32)
	def(&c.subs, 1)
	def(&c.memory, 1<<20)
	def(&c.sges, 2)
	def(&c.pid, 1000+len(w.spaces))
	p := &prog{t: w.t, w: w, e: e, ccount: make([]uint32, c.subs), qkey: 0x1000 + uint32(c.pid)}
	p.mem = newSpace(c.pid, c.memory)
	var sp memory.Space = p.mem
	if c.self {
		sp = memory.Self()
	} else {
		w.spaces[c.pid] = p.mem
	}
	p.next = p.mem.base()
	p.pd = e.NewPD(sp)
	if c.access == 0 {
		c.access = device.LocalWrite | device.RemoteWrite | device.RemoteRead
	}
	var err error
	p.mr, err = p.pd.Register(p.next, uint64(c.memory), p.next, c.access)
	require.NoError(w.t, err)
	p.cqc = engine.CQConfig{
		Ring: words(c.cq * c.cqe * c.subs), Entries: c.cq, EntrySize: c.cqe, SubCQs: c.subs, SGID: !c.noSGID,
		Notify: func() {
			if p.events++; p.told != nil {
				p.told()
			}
		},
	}
	if !c.noBell {
		p.cqc.Doorbell = words(4)
	}
	p.cq = e.NewCQ(p.cqc)
	p.cfg = engine.QPConfig{
		PD: p.pd, SendCQ: p.cq, RecvCQ: p.cq, RecvSub: c.subs - 1,
		SQEntries: c.sq, RQEntries: c.rq, WQESize: abi.WQELen, MaxRecvSGE: c.sges,
		SQDoorbell: words(4), RQDoorbell: words(4), UnsolicitedWrite: c.unsolicited, Datagram: c.datagram, Space: sp,
	}
	if c.wide {
		p.cfg.WQESize = abi.WideWQELen
	}
	p.cfg.SQ, p.cfg.RQ = words(c.sq*p.cfg.WQESize), words(c.rq*abi.RxDescLen)
	p.qp, err = e.NewQP(p.cfg)
	require.NoError(w.t, err)
	if !c.lazy {
		p.qp.Init(p.qkey)
		require.NoError(w.t, p.qp.Receive())
		require.NoError(w.t, p.qp.Send(c.rnr))
	}
	return p
}

// alloc takes memory, with b in it.
func (p *prog) alloc(b []byte) uint64 {
	at := p.next
	p.next += uint64(len(b)+15) &^ 15
	copy(p.mem.mem[at-p.mem.base():], b)
	return at
}

func (p *prog) bytes(at uint64, n int) []byte { return p.mem.mem[at-p.mem.base():][:n] }

func (p *prog) sge(at uint64, n int) abi.SGE {
	return abi.SGE{Length: uint32(n), LKey: p.mr.LKey(), Addr: at}
}

// ah is an address handle for a GID.
func (p *prog) ah(gid device.GID) uint16 {
	p.t.Helper()
	a, err := p.pd.CreateAH(gid)
	require.NoError(p.t, err)
	return a.Number()
}

// to addresses w to q.
func (p *prog) to(q *prog, w abi.WQE) abi.WQE {
	w.AH, w.DestQPN, w.QKey = p.ah(q.gid), q.qp.Number(), q.qkey
	return w
}

// inline is a send of b.
func inline(id uint16, b []byte) abi.WQE {
	return abi.WQE{ReqID: uint64(id), Inline: true, Length: uint16(len(b)), Data: b}
}

// write puts a WQE into the ring, as it is but for the bits that are always set.
func (p *prog) write(w abi.WQE) []byte {
	w.Meta, w.First, w.Last, w.CompReq = true, true, true, true
	w.Phase = p.spc/uint32(p.cfg.SQEntries)&1 == 1
	at := int(p.spc) % p.cfg.SQEntries * p.cfg.WQESize
	p.spc++
	return w.Append(p.cfg.SQ[at:at], p.cfg.WQESize)
}

func (p *prog) post(ws ...abi.WQE) {
	for _, w := range ws {
		p.write(w)
	}
	bell(p.cfg.SQDoorbell, abi.WorkDoorbell(uint16(p.spc)))
}

// recv posts a receive of the buffers.
func (p *prog) recv(id uint16, sges ...abi.SGE) {
	for i, g := range sges {
		d := abi.RxDesc{Addr: g.Addr, Length: uint16(g.Length), LKey: g.LKey, First: i == 0, Last: i == len(sges)-1}
		if i == 0 {
			d.ReqID = id
		}
		p.desc(d)
	}
	p.ringRQ()
	if !p.w.running {
		p.e.Step() // the card has it before any send
	}
}

func (p *prog) desc(d abi.RxDesc) {
	at := int(p.rpc) % p.cfg.RQEntries * abi.RxDescLen
	d.Append(p.cfg.RQ[at:at])
	p.rpc++
}

func (p *prog) ringRQ() { bell(p.cfg.RQDoorbell, abi.WorkDoorbell(uint16(p.rpc))) }

// buffer posts a receive of n bytes and returns where they are.
func (p *prog) buffer(id uint16, n int) uint64 {
	at := p.alloc(make([]byte, n))
	p.recv(id, p.sge(at, n))
	return at
}

// poll takes new entries of the completion queue.
func (p *prog) poll() []abi.CQE {
	var got []abi.CQE
	for sub := range p.ccount {
		for {
			n := p.ccount[sub]
			at := (sub*p.cqc.Entries + int(n)%p.cqc.Entries) * p.cqc.EntrySize
			b := p.cqc.Ring[at:][:p.cqc.EntrySize]
			w := atomic.LoadUint32((*uint32)(unsafe.Pointer(&b[0])))
			if abi.CQEWord(w).Phase() != (n/uint32(p.cqc.Entries)&1 == 0) {
				break
			}
			entry := append(binary.NativeEndian.AppendUint32(nil, w), b[4:]...)
			var c abi.CQE
			require.NoError(p.t, c.Parse(entry))
			if c.Queue == abi.SendQueue {
				require.NotZero(p.t, c.ReqID>>16, "what means nothing is not zero")
				c.ReqID &= 0xffff
			}
			require.Equal(p.t, p.qp.Number(), c.QPN)
			got = append(got, c)
			p.ccount[sub]++
			p.consumed++
		}
	}
	if len(got) > 0 {
		p.ringCQ(false)
	}
	return got
}

func (p *prog) ringCQ(arm bool) {
	if p.cqc.Doorbell != nil {
		bell(p.cqc.Doorbell, abi.CQDoorbell{Consumed: uint16(p.consumed), CmdSN: p.sn, Arm: arm}.Word())
	}
}

// one is the only completion.
func (p *prog) one() abi.CQE {
	p.t.Helper()
	got := p.poll()
	require.Len(p.t, got, 1)
	return got[0]
}

// status plays until everything is over, and is the status of the only completion.
func (p *prog) status() device.Status {
	p.t.Helper()
	p.w.run()
	return device.Status(p.one().Status)
}

func (p *prog) close() {
	p.qp.Close()
	p.cq.Close()
	p.mr.Close()
	p.pd.Close()
}

// pair is two programs on cards of their own that know each other.
func pair(t testing.TB, o options, c progConfig) (*world, *prog, *prog) {
	t.Helper()
	w := newWorld(t, o)
	var ps [2]*prog
	for i := range ps {
		e := w.engine(o)
		ps[i] = w.newProg(e, c)
		ps[i].gid = w.gids[i]
	}
	return w, ps[0], ps[1]
}

package engine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/engine"
	"github.com/efactor/efactor/interop/efaemu/profile"
)

// breach is how a program breaks a rule, and the result.
type breach struct {
	rule    string
	name    string
	options options
	config  progConfig
	do      func(a, b *prog) // a is the culprit; b has one receive of 64 bytes posted
	status  device.Status    // of a's only completion
	none    bool             // there is no completion
	twin    bool             // and more than one
}

// patched posts a request to b with something changed in its bytes.
func patched(a *prog, w abi.WQE, change func(raw []byte)) {
	at := int(a.spc) % a.cfg.SQEntries * a.cfg.WQESize
	a.write(w)
	change(a.cfg.SQ[at:][:a.cfg.WQESize])
	a.post()
}

// piece is a send of one SGE.
func piece(a, b *prog, g abi.SGE) abi.WQE {
	w := send(1)
	w.Length, w.SGE[0] = 1, g
	return a.to(b, w)
}

// rdma is an RDMA request between n bytes at local and the start of b's memory.
func rdma(a, b *prog, op abi.WorkOp, local uint64, n int) abi.WQE {
	w := piece(a, b, a.sge(local, n))
	w.Op = op
	w.Remote = abi.RemoteAddr{Length: uint32(n), RKey: b.mr.RKey(), Addr: b.mem.base()}
	return w
}

func posted(change func(w *abi.WQE)) func(a, b *prog) {
	return func(a, b *prog) {
		w := a.to(b, inline(1, []byte("x")))
		change(&w)
		a.post(w)
	}
}

// flipped changes a byte of an inline send.
func flipped(at int, mask byte) func(a, b *prog) {
	return func(a, b *prog) {
		patched(a, a.to(b, inline(1, []byte("x"))), func(raw []byte) { raw[at] ^= mask })
	}
}

// taken lets b send to a, which posted a receive of its own making.
func taken(desc func(a *prog) []abi.RxDesc) func(a, b *prog) {
	return func(a, b *prog) {
		for _, d := range desc(a) {
			a.desc(d)
		}
		a.ringRQ()
		a.e.Step()
		b.post(b.to(a, inline(1, []byte("0123456789"))))
	}
}

func whole(a *prog, at uint64, n int) abi.RxDesc {
	return abi.RxDesc{Addr: at, Length: uint16(n), LKey: a.mr.LKey(), First: true, Last: true}
}

func exact(o options) options {
	o.engine.ExactDoorbells = true
	return o
}

var breaches = []breach{
	{rule: engine.RuleWQEReserved, name: "byte 15", do: flipped(15, 1)},
	{rule: engine.RuleWQEReserved, name: "unused body", do: flipped(63, 1)},
	{rule: engine.RuleWQEReserved, name: "id of 64 bits", do: posted(func(w *abi.WQE) { w.ReqID |= 1 << 16 })},
	{rule: engine.RuleWQEPhase, do: flipped(3, 1)},
	{rule: engine.RuleWQEFlags, name: "comp_req", do: flipped(3, 1<<4)},
	{rule: engine.RuleWQEFlags, name: "meta", do: flipped(2, 1<<7), status: device.StatusQPInternal},
	{rule: engine.RuleWQEFlags, name: "first", do: flipped(3, 1<<2), status: device.StatusQPInternal},
	{rule: engine.RuleWQEFlags, name: "last", do: flipped(3, 1<<3), status: device.StatusQPInternal},
	{rule: engine.RuleWQEOp, name: "unknown", do: posted(func(w *abi.WQE) { w.Op, w.Data = 15, nil }), status: device.StatusUnsupportedOp},
	{
		rule: engine.RuleWQEOp, name: "read with immediate", status: device.StatusUnsupportedOp,
		do: func(a, b *prog) {
			w := rdma(a, b, abi.WorkRead, a.mem.base(), 8)
			w.HasImm = true
			a.post(w)
		},
	},
	{rule: engine.RuleWQEOp, name: "write inline in 64 bytes", status: device.StatusUnsupportedOp, do: posted(func(w *abi.WQE) {
		w.Op, w.Length, w.Data = abi.WorkWrite, 0, nil
	})},
	{
		rule: engine.RuleWQEOp, name: "no write in the profile", status: device.StatusUnsupportedOp,
		options: options{profile: func(p *profile.Profile) { p.RDMAWrite = false }},
		do:      func(a, b *prog) { a.post(rdma(a, b, abi.WorkWrite, a.mem.base(), 8)) },
	},
	{
		rule: engine.RuleWQEOp, name: "no read in the profile", status: device.StatusUnsupportedOp,
		options: options{profile: func(p *profile.Profile) { p.RDMARead = false }},
		do:      func(a, b *prog) { a.post(rdma(a, b, abi.WorkRead, a.mem.base(), 8)) },
	},
	{rule: engine.RuleWQEInline, status: device.StatusLocalBadLength, do: posted(func(w *abi.WQE) { w.Length, w.Data = 33, make([]byte, 32) })},
	{
		rule: engine.RuleWQEInline, name: "by the profile", status: device.StatusLocalBadLength,
		options: options{profile: func(p *profile.Profile) { p.Inline = 16 }}, do: posted(func(w *abi.WQE) {
			w.Length, w.Data = 17, make([]byte, 17)
		}),
	},
	{
		rule: engine.RuleWQEInline, name: "wide", config: progConfig{wide: true}, status: device.StatusLocalBadLength,
		do: posted(func(w *abi.WQE) { w.Length, w.Data = 81, make([]byte, 80) }),
	},
	{rule: engine.RuleWQESGE, status: device.StatusQPInternal, do: posted(func(w *abi.WQE) { w.Inline, w.Length, w.Data = false, 3, nil })},
	{rule: engine.RuleWQESGE, name: "of RDMA", status: device.StatusQPInternal, do: func(a, b *prog) {
		w := rdma(a, b, abi.WorkRead, a.mem.base(), 8)
		w.Length = 2
		a.post(w)
	}},
	{rule: engine.RuleWQELength, status: device.StatusLocalBadLength, do: func(a, b *prog) {
		a.post(piece(a, b, a.sge(a.mem.base(), 8761)))
	}},
	{rule: engine.RuleWQELength, name: "sum", status: device.StatusLocalBadLength, do: func(a, b *prog) {
		w := piece(a, b, a.sge(a.mem.base(), 8000))
		w.Length, w.SGE[1] = 2, abi.SGE{Length: 0xffffffff, LKey: a.mr.LKey()}
		a.post(w)
	}},
	{
		rule: engine.RuleWQELength, name: "RDMA", status: device.StatusLocalBadLength,
		options: options{profile: func(p *profile.Profile) { p.MaxRDMA = 1000 }}, do: func(a, b *prog) {
			a.post(rdma(a, b, abi.WorkRead, a.mem.base(), 1001))
		},
	},
	{rule: engine.RuleWQELength, name: "sides", status: device.StatusLocalBadLength, do: func(a, b *prog) {
		w := rdma(a, b, abi.WorkRead, a.mem.base(), 8)
		w.Remote.Length = 7
		a.post(w)
	}},
	{rule: engine.RuleWQEAH, status: device.StatusInvalidAH, do: posted(func(w *abi.WQE) { w.AH = 99 })},
	{rule: engine.RuleWQEAH, name: "closed", status: device.StatusInvalidAH, do: func(a, b *prog) {
		h, _ := a.pd.CreateAH(device.GID{7})
		h.Close()
		h.Close() // a second time is nothing
		w := a.to(b, inline(1, nil))
		w.AH = h.Number() + 1
		a.post(w)
	}},
	{rule: engine.RuleWQEAH, name: "of another domain", status: device.StatusInvalidAH, do: func(a, b *prog) {
		h, _ := a.e.NewPD(a.mem).CreateAH(b.gid)
		w := inline(1, nil)
		w.AH, w.DestQPN, w.QKey = h.Number(), b.qp.Number(), b.qkey
		a.post(w)
	}},
	{rule: engine.RuleWQELKey, status: device.StatusInvalidLKey, do: func(a, b *prog) {
		a.post(piece(a, b, abi.SGE{Length: 1, LKey: a.mr.LKey() + 1, Addr: a.mem.base()}))
	}},
	{rule: engine.RuleWQELKey, name: "of another domain", status: device.StatusInvalidLKey, do: func(a, b *prog) {
		m, _ := a.e.NewPD(a.mem).Register(a.mem.base(), 100, a.mem.base(), 0)
		a.post(piece(a, b, abi.SGE{Length: 1, LKey: m.LKey(), Addr: a.mem.base()}))
	}},
	{rule: engine.RuleWQELKey, name: "closed", status: device.StatusInvalidLKey, do: func(a, b *prog) {
		a.mr.Close()
		a.post(piece(a, b, a.sge(a.mem.base(), 1)))
	}},
	{rule: engine.RuleWQELKey, name: "read into what may not be written", status: device.StatusInvalidLKey, do: func(a, b *prog) {
		m, _ := a.pd.Register(a.mem.base(), 100, a.mem.base(), device.RemoteRead)
		w := rdma(a, b, abi.WorkRead, a.mem.base(), 8)
		w.SGE[0].LKey = m.LKey()
		a.post(w)
	}},
	{rule: engine.RuleWQERange, status: device.StatusInvalidLKey, do: func(a, b *prog) {
		a.post(piece(a, b, a.sge(a.mem.base()-1, 2)))
	}},
	{rule: engine.RuleWQERange, name: "end", status: device.StatusInvalidLKey, do: func(a, b *prog) {
		a.post(piece(a, b, a.sge(a.mem.base()+1<<20-1, 2)))
	}},
	{rule: engine.RuleWQERange, name: "around", status: device.StatusInvalidLKey, do: func(a, b *prog) {
		a.post(piece(a, b, a.sge(^uint64(0), 2)))
	}},
	{rule: engine.RuleWQEMemory, status: device.StatusInvalidLKey, do: func(a, b *prog) {
		a.mem.hole = [2]uint64{100, 200}
		a.post(piece(a, b, a.sge(a.mem.base()+99, 2)))
	}},
	{rule: engine.RuleSQState, config: progConfig{lazy: true}, do: func(a, b *prog) {
		a.qp.Init(1)
		a.post(a.to(b, inline(1, nil)))
		a.e.Step()
		_ = a.qp.Receive()
		a.e.Step()
		b.start()
		_ = a.qp.Send(0)
	}},
	{rule: engine.RuleSQDoorbell, do: func(a, b *prog) {
		a.write(a.to(b, inline(1, nil)))
		bell(a.cfg.SQDoorbell, 1<<16|a.spc)
	}},
	{rule: engine.RuleSQOverrun, name: "entries lost", none: true, do: func(a, _ *prog) { bell(a.cfg.SQDoorbell, 9) }},
	{rule: engine.RuleSQOverrun, name: "backwards", twin: true, do: func(a, b *prog) {
		a.post(a.to(b, inline(1, nil)))
		a.w.run()
		bell(a.cfg.SQDoorbell, 0)
	}},
	{
		rule: engine.RuleSQBatch, twin: true, options: exact(options{profile: func(p *profile.Profile) { p.MaxTxBatch = 2 }}),
		do: func(a, b *prog) {
			for i := range 3 {
				b.buffer(1, 10)
				a.write(a.to(b, inline(uint16(i), nil)))
			}
			a.post()
		},
	},
	{
		rule: engine.RuleSQBatch, name: "all entries", twin: true,
		options: exact(options{profile: func(p *profile.Profile) { p.MinSQ, p.MaxTxBatch = 1, 0 }}),
		do: func(a, b *prog) {
			for i := range 8 {
				if i > 0 {
					b.buffer(1, 10)
				}
				a.write(a.to(b, inline(uint16(i), nil)))
			}
			a.post()
		},
	},
	{rule: engine.RuleRQState, config: progConfig{lazy: true}, do: func(a, b *prog) {
		a.buffer(3, 10)
		a.e.Step()
		a.start()
		b.start()
		b.post(b.to(a, inline(1, nil)))
	}},
	{rule: engine.RuleRQDoorbell, none: true, do: func(a, _ *prog) { bell(a.cfg.RQDoorbell, 1<<31) }},
	{rule: engine.RuleRQOverrun, name: "entries lost", none: true, do: func(a, _ *prog) { bell(a.cfg.RQDoorbell, 9) }},
	{rule: engine.RuleRQOverrun, name: "kept", twin: true, do: func(a, _ *prog) {
		for range 9 { // and the one of the beginning
			a.buffer(2, 10)
		}
		a.qp.Fail()
	}},
	{rule: engine.RuleRxReserved, do: taken(func(a *prog) []abi.RxDesc {
		at := int(a.rpc) % a.cfg.RQEntries * abi.RxDescLen
		d := whole(a, a.mem.base(), 10)
		a.desc(d)
		a.cfg.RQ[at+15] |= 1
		return nil
	})},
	{rule: engine.RuleRxFlags, name: "no first", do: taken(func(a *prog) []abi.RxDesc {
		d := whole(a, a.mem.base(), 10)
		d.First = false
		return []abi.RxDesc{d}
	})},
	{rule: engine.RuleRxFlags, name: "first again", do: taken(func(a *prog) []abi.RxDesc {
		d := whole(a, a.mem.base(), 10)
		d.Last = false
		return []abi.RxDesc{d, whole(a, a.mem.base(), 10)}
	})},
	{rule: engine.RuleRxSGE, do: taken(func(a *prog) []abi.RxDesc {
		d, e := whole(a, a.mem.base(), 5), whole(a, a.mem.base()+5, 5)
		d.Last, e.First, e.Last = false, false, false
		return []abi.RxDesc{d, e}
	})},
	{rule: engine.RuleRxLKey, status: device.StatusInvalidLKey, do: taken(func(a *prog) []abi.RxDesc {
		d := whole(a, a.mem.base(), 10)
		d.LKey++
		return []abi.RxDesc{d}
	})},
	{rule: engine.RuleRxLKey, name: "not to be written", status: device.StatusInvalidLKey, do: taken(func(a *prog) []abi.RxDesc {
		m, _ := a.pd.Register(a.mem.base(), 100, a.mem.base(), 0)
		d := whole(a, a.mem.base(), 10)
		d.LKey = m.LKey()
		return []abi.RxDesc{d}
	})},
	{rule: engine.RuleRxRange, status: device.StatusInvalidLKey, do: taken(func(a *prog) []abi.RxDesc {
		return []abi.RxDesc{whole(a, a.mem.base()+1<<20-9, 10)}
	})},
	{rule: engine.RuleRxMemory, status: device.StatusInvalidLKey, do: taken(func(a *prog) []abi.RxDesc {
		a.mem.hole = [2]uint64{5, 6}
		return []abi.RxDesc{whole(a, a.mem.base(), 10)}
	})},
	{rule: engine.RuleRxShort, status: device.StatusLocalBadLength, do: taken(func(a *prog) []abi.RxDesc {
		return []abi.RxDesc{whole(a, a.mem.base(), 9)}
	})},
	{rule: engine.RuleCQDoorbell, none: true, do: func(a, _ *prog) { bell(a.cqc.Doorbell, 1) }},
	{rule: engine.RuleCQDoorbell, name: "reserved", none: true, do: func(a, _ *prog) { bell(a.cqc.Doorbell, 1<<20) }},
	{rule: engine.RuleCQOverrun, options: exact(options{}), config: progConfig{cq: 2}, none: true, // none that it can see
		do: func(a, b *prog) {
			a.post(a.to(b, inline(0, nil)))
			a.w.run()
			a.poll()
			for i := range 3 {
				b.buffer(uint16(i), 10)
				a.post(a.to(b, inline(uint16(i), nil)))
				a.w.run()
				b.poll()
			}
		}},
	{rule: engine.RuleCQLength, config: progConfig{cqe: 16}, do: func(a, b *prog) {
		a.buffer(1, 1)
		w := rdma(b, a, abi.WorkWrite, b.mem.base(), 1<<16)
		w.HasImm = true
		b.post(w)
	}},
	{rule: engine.RuleRemoteRegion, none: true, do: func(a, _ *prog) {
		m, err := a.pd.Register(a.mem.base(), 100, 0, device.RemoteRead)
		require.NoError(a.t, err)
		require.NotZero(a.t, m.RKey())
	}},
}

// start takes a queue pair that is in RESET to RTS.
func (p *prog) start() {
	p.qp.Init(p.qkey)
	require.NoError(p.t, p.qp.Receive())
	require.NoError(p.t, p.qp.Send(0))
	p.e.Step()
}

// Each rule can be broken, is found then, and alone; and the result is that of the
// status.
func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, tt := range breaches {
		seen[tt.rule] = true
		t.Run(tt.rule+"/"+tt.name, func(t *testing.T) {
			w, a, b := pair(t, tt.options, tt.config)
			b.buffer(1, 64)
			if !tt.config.lazy {
				w.clean()
			}
			w.log.Take()
			tt.do(a, b)
			w.run()
			assert.Equal(t, []string{tt.rule}, w.rules())
			got := a.poll()
			switch {
			case tt.none:
				assert.Empty(t, got)
			case tt.twin:
				assert.NotEmpty(t, got)
			default:
				require.Len(t, got, 1)
				assert.Equal(t, tt.status, device.Status(got[0].Status))
			}
			assert.NotZero(t, a.e.Stats().Findings)
		})
	}
	for rule, text := range engine.Rules {
		assert.True(t, seen[rule], "nobody breaks %s", rule)
		assert.NotEmpty(t, text)
	}
	assert.Len(t, seen, len(engine.Rules))
}

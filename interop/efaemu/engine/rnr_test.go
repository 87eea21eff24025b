package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/engine"
)

// As many packets get through as there are receives, neither fewer nor more, for
// any depth of the device.
func TestNotReady(t *testing.T) {
	w, a, b := pair(t, options{}, progConfig{sq: 16, rq: 16})
	for _, receives := range []int{0, 1, 3, 0, 7} {
		for i := range receives {
			b.buffer(uint16(i), 10)
		}
		for i := range 8 {
			a.write(a.to(b, inline(uint16(i), nil)))
		}
		a.post()
		w.run()
		var ok, rnr int
		for _, c := range a.poll() {
			switch device.Status(c.Status) {
			case device.StatusOK:
				ok++
			case device.StatusRNR:
				rnr++
			}
		}
		assert.Equal(t, receives, ok)
		assert.Equal(t, 8-receives, rnr)
		assert.Len(t, b.poll(), receives)
	}
	w.clean()
}

// More receives than the device has slots for serve one after the other.
func TestMoreReceivesThanSlots(t *testing.T) {
	o := options{}
	o.sim.MaxRQ = 3
	w, a, b := pair(t, o, progConfig{rq: 64, cq: 128})
	for i := range 64 {
		b.buffer(uint16(i), 10)
	}
	for i := range 64 {
		a.post(a.to(b, inline(uint16(i), nil)))
		require.Equal(t, device.StatusOK, a.status())
	}
	assert.Len(t, b.poll(), 64)
	w.clean()
}

// plain is a device whose queue pairs cannot learn late how often to resend.
type plain struct{ device.Device }

type plainQP struct{ device.QP }

func (plainQP) SetRNRRetry(uint8) error { return device.ErrNotSupported }

func (d plain) OpenQP(c device.QPConfig) (device.QP, error) {
	q, err := d.Device.OpenQP(c)
	return plainQP{q}, err
}

// A packet that meets RNR is sent again as often as was asked for, by the device or
// by the engine.
func TestRetries(t *testing.T) {
	for _, own := range []bool{false, true} {
		for _, rnr := range []uint8{1, 3, 7} {
			w := newWorld(t, options{})
			o := options{}
			if own {
				d, err := w.fab.OpenDevice(sim.DeviceConfig{RDMARead: true, RDMAWrite: true})
				require.NoError(t, err)
				o.engine.Device = plain{d}
			}
			e := w.engine(o)
			a, b := w.newProg(e, progConfig{rnr: rnr}), w.newProg(e, progConfig{})
			if own {
				w.gids[0] = o.engine.Device.Info().GID
			}
			a.gid, b.gid = w.gids[0], w.gids[0]

			// In time.
			at := a.alloc([]byte("hello"))
			a.post(piece(a, b, a.sge(at, 5)))
			w.run()
			require.Empty(t, a.poll(), "it waits")
			copy(a.bytes(at, 5), "HELLO") // the card may have taken it already
			got := b.buffer(1, 10)
			w.later(50 * time.Millisecond)
			require.Zero(t, a.one().Status)
			require.Equal(t, "hello", string(b.bytes(got, 5)))
			b.one()

			// Never.
			a.post(piece(a, b, a.sge(at, 5)))
			w.run()
			require.Empty(t, a.poll())
			w.later(50 * time.Millisecond)
			if rnr == 7 {
				require.Empty(t, a.poll())
			} else {
				require.Equal(t, device.StatusRNR, device.Status(a.one().Status))
			}
			if own {
				assert.GreaterOrEqual(t, e.Stats().Retries, uint64(rnr))
			} else {
				assert.Zero(t, e.Stats().Retries)
			}
			w.clean()
			a.close()
			b.close()
		}
	}
}

// While one packet waits for a receive, others pass, and a handle that goes takes
// its packets along.
func TestRetryHoldsNobodyUp(t *testing.T) {
	w := newWorld(t, options{})
	d, err := w.fab.OpenDevice(sim.DeviceConfig{})
	require.NoError(t, err)
	e := w.engine(options{engine: engine.Config{Device: plain{d}}})
	a, b, c := w.newProg(e, progConfig{rnr: 7}), w.newProg(e, progConfig{}), w.newProg(e, progConfig{})
	h, err := a.pd.CreateAH(d.Info().GID)
	require.NoError(t, err)
	c.buffer(1, 10)
	for i, q := range []*prog{b, c} {
		wqe := inline(uint16(i), nil)
		wqe.AH, wqe.DestQPN, wqe.QKey = h.Number(), q.qp.Number(), q.qkey
		a.post(wqe)
	}
	w.run()
	assert.Equal(t, uint64(1), a.one().ReqID)
	h.Close()
	w.later(time.Millisecond)
	got := a.one()
	assert.Zero(t, got.ReqID)
	assert.Equal(t, device.StatusInvalidAH, device.Status(got.Status))
}

// The fabric's status of a packet or a request is the status of its completion.
func TestStatusOfTheFabric(t *testing.T) {
	for _, tt := range []struct {
		name   string
		do     func(w *abi.WQE)
		status device.Status
	}{
		{"no such queue pair", func(w *abi.WQE) { w.DestQPN += 1000 }, device.StatusBadDestQPN},
		{"wrong Q_Key", func(w *abi.WQE) { w.QKey++ }, device.StatusBadDestQPN},
		{"wrong rkey", func(w *abi.WQE) { w.Remote.RKey++ }, device.StatusBadAddress},
		{"wrong address", func(w *abi.WQE) { w.Remote.Addr-- }, device.StatusBadAddress},
	} {
		w, a, b := pair(t, options{}, progConfig{})
		wqe := rdma(a, b, abi.WorkRead, a.mem.base(), 8)
		tt.do(&wqe)
		a.post(wqe)
		assert.Equal(t, tt.status, a.status(), tt.name)
		w.clean()
	}
	for _, st := range []device.Status{
		device.StatusAbort, device.StatusBadStatus, device.StatusUnresponsive, device.StatusUnknownPeer,
		device.StatusUnreachable, device.StatusMismatch, device.StatusRemoteBadLength,
	} {
		w, a, b := pair(t, options{sim: sim.Config{Rules: []sim.Rule{{Fault: sim.FaultStatus, Status: st}}}}, progConfig{})
		b.buffer(1, 10)
		a.post(a.to(b, inline(1, nil)))
		assert.Equal(t, st, a.status())
		for _, op := range []abi.WorkOp{abi.WorkRead, abi.WorkWrite} {
			a.post(rdma(a, b, op, a.mem.base(), 8))
			assert.Equal(t, st, a.status(), "op %d", op)
			assert.Equal(t, uint64(1), a.e.Stats().Sent[op][st])
		}
		w.clean()
	}
}

// The sender of a datagram does not learn its fate, and RDMA is not for datagrams.
func TestDatagram(t *testing.T) {
	w, a, b := pair(t, options{}, progConfig{datagram: true, rnr: 7})
	a.post(a.to(b, inline(1, nil)))
	assert.Equal(t, device.StatusOK, a.status(), "without a receive")
	at := b.buffer(1, 44)
	w.later(time.Millisecond)
	assert.Empty(t, b.poll(), "it is lost")
	for _, change := range []func(*abi.WQE){
		func(w *abi.WQE) { w.QKey++ },
		func(w *abi.WQE) { w.DestQPN += 1000 },
	} {
		wqe := a.to(b, inline(2, nil))
		change(&wqe)
		a.post(wqe)
		assert.Equal(t, device.StatusOK, a.status())
	}
	a.post(a.to(b, inline(3, []byte("here"))))
	assert.Equal(t, device.StatusOK, a.status())
	assert.EqualValues(t, 44, b.one().Length, "with the room for a route header")
	assert.Equal(t, "here", string(b.bytes(at+40, 4)))
	w.clean()

	wqe := a.to(b, inline(4, nil))
	wqe.AH++
	a.post(wqe)
	assert.Equal(t, device.StatusInvalidAH, a.status(), "its own mistakes it is told")
	a.post(rdma(a, b, abi.WorkRead, a.mem.base(), 8))
	assert.Equal(t, device.StatusUnsupportedOp, a.status())
	assert.Equal(t, []string{engine.RuleWQEAH, engine.RuleWQEOp}, w.rules())
}

// The room in front of a datagram may be cut between the pieces of a receive, and a receive
// that has not all of it takes nothing.
func TestDatagramInPieces(t *testing.T) {
	for _, first := range []int{1, 39, 40, 41, 43} {
		w, a, b := pair(t, options{}, progConfig{datagram: true})
		x, y := b.alloc(make([]byte, first)), b.alloc(make([]byte, 50))
		b.recv(1, b.sge(x, first), b.sge(y, 44-first))
		a.post(a.to(b, inline(1, []byte("here"))))
		w.run()
		assert.EqualValues(t, 44, b.one().Length)
		got := append(append([]byte{}, b.bytes(x, first)...), b.bytes(y, 50)...)
		assert.Equal(t, make([]byte, 40), got[:40])
		assert.Equal(t, "here", string(got[40:44]))
		assert.Zero(t, got[44], "no more than there is")
		w.clean()
	}
	w, a, b := pair(t, options{}, progConfig{datagram: true})
	for _, n := range []int{20, 40} {
		b.buffer(1, n)
		a.post(a.to(b, inline(1, []byte("x"))))
		w.run()
		assert.EqualValues(t, device.StatusLocalBadLength, b.one().Status)
	}
	assert.Equal(t, []string{engine.RuleRxShort}, w.rules())
}

// A device has fewer receives than a program may post, and many may send at once:
// no sender meets RNR while the program has receives.
func TestReceivesForAll(t *testing.T) {
	for _, datagram := range []bool{false, true} {
		const senders, each = 12, 64
		w := newWorld(t, options{})
		e := w.engine(options{})
		b := w.newProg(e, progConfig{rq: 1024, cq: 1024, datagram: datagram})
		b.gid = w.gids[0]
		for i := range 1024 {
			b.desc(abi.RxDesc{
				Addr: b.mem.base(), ReqID: uint16(i), Length: 100, LKey: b.mr.LKey(), First: true, Last: true,
			})
		}
		var all []*prog
		for i := range senders {
			a := w.newProg(e, progConfig{sq: each, cq: each, memory: 1 << 12, datagram: datagram})
			a.gid = b.gid
			for k := range each {
				wqe := a.to(b, inline(uint16(k), []byte{byte(i), byte(k)}))
				if k == 1 && !datagram {
					wqe = rdma(a, b, abi.WorkWrite, a.mem.base(), 50)
					wqe.ReqID, wqe.HasImm = 1, true
				}
				a.write(wqe)
			}
			all = append(all, a)
		}
		b.ringRQ()
		for _, a := range all {
			a.post()
		}
		w.run()
		for _, a := range all {
			got := a.poll()
			require.Len(t, got, each)
			for _, c := range got {
				require.Equal(t, device.StatusOK, device.Status(c.Status))
			}
		}
		assert.Len(t, b.poll(), senders*each)
		for _, a := range all { // and one more than there are
			a.post(slices.Repeat([]abi.WQE{a.to(b, inline(0, nil))}, each)...)
		}
		w.run()
		assert.Len(t, b.poll(), 1024-senders*each)
		w.clean()
	}
}

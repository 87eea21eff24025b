//go:build linux

package uverbs

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// TestLyingKernel: an answer that cannot be is an error, and nothing is left behind.
func TestLyingKernel(t *testing.T) {
	for name, lie := range map[string]func(*fake){
		"no AH numbers":          func(f *fake) { f.limits.Udata = 0 },
		"no sub-CQs":             func(f *fake) { f.limits.SubCQs = 0 },
		"sub-CQs without end":    func(f *fake) { f.limits.SubCQs = 0xffff },
		"no send queue":          func(f *fake) { f.limits.MaxLLQ = 0 },
		"much inline":            func(f *fake) { f.limits.Inline = 33 },
		"no depth":               func(f *fake) { f.efa.MaxSQ = 0 },
		"no receives":            func(f *fake) { f.efa.MaxRQ = 0 },
		"no completions":         func(f *fake) { f.core.MaxCQE = 0 },
		"no SGEs":                func(f *fake) { f.efa.MaxSGESQ = 0 },
		"no MTU":                 func(f *fake) { f.port.MaxMsg = 0 },
		"an MTU of 64 KiB":       func(f *fake) { f.port.MaxMsg = 1 << 16 },
		"port down":              func(f *fake) { f.port.State = 1 },
		"no GID":                 func(f *fake) { f.gid.GID = [16]byte{} },
		"channel is no fd":       func(f *fake) { f.fd = func(int) uint64 { return 1 << 40 } },
		"channel is closed":      func(f *fake) { f.fd = func(int) uint64 { return 1 << 20 } },
		"another depth":          func(f *fake) { f.depth = func(n uint32) uint32 { return n / 2 } },
		"completions too short":  func(f *fake) { f.cq.Size = 4096 },
		"completions endless":    func(f *fake) { f.cq.Size = 1 << 60 },
		"completions nowhere":    func(f *fake) { f.cq.Key = 1 << 63 },
		"doorbell off the page":  func(f *fake) { f.cq.DoorbellOff = uint32(os.Getpagesize()) - 2 },
		"doorbell between words": func(f *fake) { f.cq.DoorbellOff = 6 },
		"events, no doorbell":    func(f *fake) { f.cq.CompMask = 0 },
		"number of 17 bits":      func(f *fake) { f.number = 1 << 16 },
		"send completions":       func(f *fake) { f.qp.SendSubCQ = 1 },
		"receive completions":    func(f *fake) { f.qp.RecvSubCQ = 1 },
		"receives too short":     func(f *fake) { f.qp.RQSize = 16 },
		"receives endless":       func(f *fake) { f.qp.RQSize = 1 << 62 },
		"receive doorbell":       func(f *fake) { f.qp.RQDoorbellOff = 1 << 31 },
		"send doorbell":          func(f *fake) { f.qp.SQDoorbellOff = 3 },
		"descriptors off a line": func(f *fake) { f.qp.LLQOff = 32 },
		"descriptors elsewhere":  func(f *fake) { f.qp.LLQOff = 1 << 30 },
		"AH that means unknown":  func(f *fake) { f.ah = func() uint16 { return abi.UnknownAH } },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			lie(f)
			if name == "AH that means unknown" {
				d, err := Open(Config{Kernel: f})
				require.NoError(t, err)
				qp, err := d.OpenQP(device.QPConfig{})
				require.NoError(t, err)
				_, err = qp.CreateAH(device.GID{1})
				require.Error(t, err)
				require.NoError(t, qp.Close())
				require.NoError(t, d.Close())
			} else if d, err := Open(Config{Kernel: f}); err == nil {
				qp, err := d.OpenQP(device.QPConfig{})
				require.Error(t, err)
				require.Nil(t, qp)
				require.NoError(t, d.Close())
			}
			for kind, n := range f.objects {
				if kind != abi.ObjectPD { // with an error before it, the file is closed
					require.Zero(t, n, "objects of kind %d", kind)
				}
			}
		})
	}
}

// TestTwoHandlesOfANumber: a device that gives one number to two GIDs is refused.
func TestTwoHandlesOfANumber(t *testing.T) {
	f := newFake(t)
	f.ah = func() uint16 { return 5 }
	d, q, ah := f.open(device.QPConfig{})
	require.EqualValues(t, 5, ah)
	_, err := q.CreateAH(device.GID{2})
	require.ErrorIs(t, err, errLies)
	require.Equal(t, 1, f.objects[abi.ObjectAH])
	require.NoError(t, q.Close())
	require.NoError(t, d.Close())
	require.Zero(t, f.objects[abi.ObjectAH])
}

// TestLyingCard: a completion that cannot be ends the queue pair, and is not told.
func TestLyingCard(t *testing.T) {
	good := abi.CQE{Queue: abi.RecvQueue, QPN: fakeQPN, AH: abi.UnknownAH, Length: 8}
	for name, lie := range map[string]func(q *QP, e *abi.CQE){
		"no queue":           func(_ *QP, e *abi.CQE) { e.Queue = 0 },
		"third queue":        func(_ *QP, e *abi.CQE) { e.Queue = 3 },
		"send not under way": func(q *QP, e *abi.CQE) { e.Queue, e.ReqID = abi.SendQueue, uint64(q.sq.ids.id(3)) },
		"send of no number":  func(q *QP, e *abi.CQE) { e.Queue, e.ReqID = abi.SendQueue, uint64(q.sq.ids.id(5)) },
		"slot not posted":    func(q *QP, e *abi.CQE) { e.ReqID = uint64(q.rq.ids.id(1)) },
		"slot of no number":  func(q *QP, e *abi.CQE) { e.ReqID = uint64(q.rq.ids.id(6)) },
		"too long":           func(_ *QP, e *abi.CQE) { e.Length = 8929 },
		"far too long":       func(_ *QP, e *abi.CQE) { e.Length = 0xffff },
		"write, no data":     func(_ *QP, e *abi.CQE) { e.Op = abi.WorkWrite },
		"write, unsolicited": func(_ *QP, e *abi.CQE) { e.Op, e.HasImm, e.Unsolicited = abi.WorkWrite, true, true },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			d, q, ah := f.open(device.QPConfig{SQDepth: 5, RQDepth: 6})
			q.PostRecv([]int32{0})
			e := good
			e.ReqID = uint64(q.rq.ids.id(0))
			lie(q, &e)
			f.complete(0, e)
			var c [4]device.Completion
			require.Equal(t, 1, q.Poll(c[:]))
			require.Equal(t, device.Completion{Op: device.OpFatal, Status: device.StatusQPInternal}, c[0])
			require.Zero(t, q.Poll(c[:]), "once")
			require.True(t, q.Arm(), "nothing is to be polled")
			require.ErrorIs(t, q.PostSend(&device.SendWR{AH: ah}), device.ErrClosed)
			q.PostRecv([]int32{1})
			q.Doorbell()
			require.EqualValues(t, 1, f.bell(keyRQBell, f.qp.RQDoorbellOff).Load())
			require.NoError(t, q.Close())
			require.NoError(t, d.Close())
		})
	}
}

// TestRemovedCard: memory of a card that was taken away reads as zeros, which is a new
// completion every second lap. The queue pair ends, and not before what had come.
func TestRemovedCard(t *testing.T) {
	f := newFake(t)
	_, q, _ := f.open(device.QPConfig{SQDepth: 2, RQDepth: 2})
	entries := len(q.cq.rings[0].mem) / abi.WideCQELen
	var c [4]device.Completion
	for i := range entries {
		q.PostRecv([]int32{0})
		f.complete(i, abi.CQE{Queue: abi.RecvQueue, QPN: fakeQPN, ReqID: uint64(q.rq.ids.id(0)), AH: abi.UnknownAH})
		require.Equal(t, 1, q.Poll(c[:]))
		require.Equal(t, device.OpRecv, c[0].Op)
	}
	clear(f.mem[keyCQ])
	require.Equal(t, 1, q.Poll(c[:]))
	require.Equal(t, device.OpFatal, c[0].Op)
	require.NoError(t, q.Close())
}

// TestStale: completions of another queue pair are dropped: of another number, and of the
// same number before.
func TestStale(t *testing.T) {
	f := newFake(t)
	d, before, _ := f.open(device.QPConfig{SQDepth: 4, RQDepth: 4})
	tx, rx := before.sq.ids.id(0), before.rq.ids.id(0)
	require.NoError(t, before.Close())
	qp, err := d.OpenQP(device.QPConfig{SQDepth: 4, RQDepth: 4})
	require.NoError(t, err)
	q := qp.(*QP)
	q.PostRecv([]int32{0})
	for i, e := range []abi.CQE{
		{Queue: abi.SendQueue, QPN: fakeQPN, ReqID: uint64(tx)},
		{Queue: abi.RecvQueue, QPN: fakeQPN, ReqID: uint64(rx)},
		{Queue: abi.SendQueue, QPN: fakeQPN + 1, ReqID: uint64(q.sq.ids.id(0))},
		{Queue: abi.RecvQueue, QPN: fakeQPN + 1, ReqID: uint64(q.rq.ids.id(0))},
		{Queue: abi.RecvQueue, QPN: fakeQPN, ReqID: uint64(q.rq.ids.id(0)), AH: abi.UnknownAH, Length: 5},
	} {
		f.complete(i, e)
	}
	var c [4]device.Completion
	require.Equal(t, 1, q.Poll(c[:]))
	require.Equal(t, device.OpRecv, c[0].Op)
	require.Equal(t, 5, c[0].Len)
	require.EqualValues(t, 4, q.stale)
	require.EqualValues(t, 5, f.bell(keyCQBell, f.cq.DoorbellOff).Load())
	require.NoError(t, q.Close())
}

//go:build linux

package uverbs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// TestStatuses: every status code reaches the owner of the request, of sends and receives,
// and known ones mean what package device says.
func TestStatuses(t *testing.T) {
	f := newFake(t)
	_, q, ah := f.open(device.QPConfig{SQDepth: 1, RQDepth: 1})
	var c [2]device.Completion
	for n := range 256 {
		require.NoError(t, q.PostSend(&device.SendWR{ID: uint64(n), AH: ah}))
		q.PostRecv([]int32{0})
		f.complete(2*n, abi.CQE{Queue: abi.SendQueue, QPN: fakeQPN, ReqID: uint64(q.sq.ids.id(0)), Status: uint8(n)})
		f.complete(2*n+1, abi.CQE{
			Queue: abi.RecvQueue, QPN: fakeQPN, ReqID: uint64(q.rq.ids.id(0)), Status: uint8(n), AH: abi.UnknownAH, Length: 7,
		})
		require.Equal(t, 2, q.Poll(c[:]))
		require.Equal(t, device.Completion{ID: uint64(n), Op: device.OpSend, Status: device.Status(n)}, c[0])
		require.Equal(t, device.OpRecv, c[1].Op)
		require.Equal(t, device.Status(n), c[1].Status)
		require.Equal(t, n == 0, c[1].Len == 7)
	}
	require.NoError(t, q.Close())
}

// TestSources: the sender of a packet is the queue pair's own handle, or a GID: that in the
// completion, or that of a handle which another queue pair has, or had a moment ago.
func TestSources(t *testing.T) {
	f := newFake(t)
	d, q, mine := f.open(device.QPConfig{RQDepth: 2})
	other, err := d.OpenQP(device.QPConfig{})
	require.NoError(t, err)
	theirs, err := other.CreateAH(device.GID{2})
	require.NoError(t, err)
	for i, x := range []struct {
		ah   uint16
		gid  device.GID // in the entry
		want device.Completion
	}{
		{uint16(mine), device.GID{}, device.Completion{AH: mine}},
		{uint16(mine), device.GID{9}, device.Completion{AH: mine}},
		{uint16(theirs), device.GID{}, device.Completion{AH: device.UnknownAH, SrcGID: device.GID{2}}},
		{abi.UnknownAH, device.GID{3}, device.Completion{AH: device.UnknownAH, SrcGID: device.GID{3}}},
		{0x7777, device.GID{}, device.Completion{AH: device.UnknownAH}},
	} {
		q.PostRecv([]int32{1})
		f.mem[keyCQ] = nil // two queue pairs have one key here: entries go into q's ring
		e := abi.CQE{
			Queue: abi.RecvQueue, QPN: fakeQPN, ReqID: uint64(q.rq.ids.id(1)), AH: x.ah, GID: x.gid, SrcQPN: 5, Length: 3, Phase: true,
		}
		at := i * abi.WideCQELen
		e.Append(q.cq.rings[0].mem[at:at], abi.WideCQELen)
		var c [1]device.Completion
		require.Equal(t, 1, q.Poll(c[:]))
		x.want.ID, x.want.Op, x.want.SrcQPN, x.want.Len = 1, device.OpRecv, 5, 3
		require.Equal(t, x.want, c[0], "%d", i)
	}
	require.NoError(t, other.Close())
	require.NoError(t, q.Close())
	require.NoError(t, d.Close())
	require.Zero(t, f.objects[abi.ObjectAH])
}

// TestSubQueues: rings of a completion queue are read in turn, each by its own phase.
func TestSubQueues(t *testing.T) {
	f := newFake(t)
	f.limits.SubCQs = 2
	f.qp.RecvSubCQ = 1
	_, q, ah := f.open(device.QPConfig{SQDepth: 2, RQDepth: 2})
	require.Len(t, q.cq.rings, 2)
	entries := int(q.cq.rings[0].mask) + 1
	put := func(ring, n int, e abi.CQE) {
		e.Phase = n/entries%2 == 0
		at := (ring*entries + n%entries) * abi.WideCQELen
		e.Append(f.mem[keyCQ][at:at], abi.WideCQELen)
	}
	for n := range 5 * entries {
		require.NoError(t, q.PostSend(&device.SendWR{AH: ah}))
		put(0, n, abi.CQE{Queue: abi.SendQueue, QPN: fakeQPN, ReqID: uint64(q.sq.ids.id(1 - uint16(len(q.sq.free))))})
		want := 1
		if n%3 == 0 {
			q.PostRecv([]int32{0})
			put(1, n/3, abi.CQE{Queue: abi.RecvQueue, QPN: fakeQPN, ReqID: uint64(q.rq.ids.id(0)), AH: abi.UnknownAH})
			want = 2
		}
		var c [4]device.Completion
		require.Equal(t, want, q.Poll(c[:]), "%d", n)
	}
	require.NoError(t, q.Close())
}

// TestArm: events are asked for by number, and a completion before the arming refuses it.
func TestArm(t *testing.T) {
	f := newFake(t)
	_, q, ah := f.open(device.QPConfig{SQDepth: 4})
	require.Len(t, q.FDs(), 2)
	bell := func() abi.CQDoorbell { return abi.ParseCQDoorbell(f.bell(keyCQBell, f.cq.DoorbellOff).Load()) }
	var c [4]device.Completion
	for n := range 6 {
		require.True(t, q.Arm())
		require.Equal(t, abi.CQDoorbell{Consumed: uint16(2 * n), CmdSN: uint8(n) & 3, Arm: true}, bell())
		for i := range 2 {
			require.NoError(t, q.PostSend(&device.SendWR{AH: ah}))
			f.complete(2*n+i, abi.CQE{Queue: abi.SendQueue, QPN: fakeQPN, ReqID: q.sq.work.ReqID})
		}
		require.False(t, q.Arm(), "there is something")
		f.event("channel", le.AppendUint64(nil, userHandle))
		require.Equal(t, 2, q.Poll(c[:]))
		require.Equal(t, abi.CQDoorbell{Consumed: uint16(2*n + 2), CmdSN: uint8(n+1) & 3}, bell())
	}
	require.NoError(t, q.Close())
}

// TestAsyncEvents: fatal events end the queue pair, others do not; a queue pair that spins
// notices without sleeping.
func TestAsyncEvents(t *testing.T) {
	for kind, want := range map[uint32]device.Status{
		abi.EventCQError: device.StatusQPInternal, abi.EventQPFatal: device.StatusQPInternal,
		abi.EventDeviceFatal: device.StatusAbort,
		abi.EventPortError:   device.StatusOK, abi.EventPortActive: device.StatusOK, abi.EventSQDrained: device.StatusOK, 99: device.StatusOK,
	} {
		f := newFake(t)
		d, q, _ := f.open(device.QPConfig{})
		event := abi.AsyncEvent{Element: userHandle, Type: kind}
		f.event("async", event.Append(nil))
		var c [1]device.Completion
		got := 0
		for range lookEvery {
			got += q.Poll(c[:])
		}
		if want == device.StatusOK {
			require.Zero(t, got)
			require.True(t, q.Arm())
		} else {
			require.Equal(t, 1, got)
			require.Equal(t, device.Completion{Op: device.OpFatal, Status: want}, c[0])
		}
		require.NoError(t, q.Close())
		require.NoError(t, d.Close())
	}
}

// TestUnsolicitedWrite: where that is wanted, a peer's write with data takes no receive;
// its number is turned, as rdma-core and libfabric do between them.
func TestUnsolicitedWrite(t *testing.T) {
	f := newFake(t)
	f.efa.Caps |= abi.DeviceUnsolicitedWrite
	d, q := openUnsolicited(t, f)
	require.True(t, d.Info().UnsolicitedWrite)
	q.PostRecv([]int32{0})
	write := abi.CQE{
		Queue: abi.RecvQueue, Op: abi.WorkWrite, QPN: fakeQPN, AH: abi.UnknownAH, Length: 70000,
		HasImm: true, Imm: 0x78563412, Unsolicited: true, ReqID: 0x7777, // which means nothing
	}
	f.complete(0, write)
	packet := abi.CQE{Queue: abi.RecvQueue, QPN: fakeQPN, AH: abi.UnknownAH, Length: 8, ReqID: uint64(q.rq.ids.id(0))}
	f.complete(1, packet)
	var c [4]device.Completion
	require.Equal(t, 2, q.Poll(c[:]))
	require.Equal(t, device.OpWritten, c[0].Op)
	require.Equal(t, device.NoSlot, c[0].ID)
	require.EqualValues(t, 0x12345678, c[0].Imm)
	require.Equal(t, 70000, c[0].Len)
	require.Equal(t, device.OpRecv, c[1].Op)
	require.Zero(t, c[1].ID, "the slot")
	require.NoError(t, q.Close())
	require.NoError(t, d.Close())

	for name, lie := range map[string]func(*abi.CQE){
		"a packet":   func(e *abi.CQE) { e.Op = abi.WorkSend },
		"no number":  func(e *abi.CQE) { e.HasImm = false },
		"unfinished": func(e *abi.CQE) { e.Status = 1 },
	} {
		f := newFake(t)
		f.efa.Caps |= abi.DeviceUnsolicitedWrite
		d, q := openUnsolicited(t, f)
		e := write
		lie(&e)
		f.complete(0, e)
		require.Equal(t, 1, q.Poll(c[:]), name)
		require.Equal(t, device.OpFatal, c[0].Op, name)
		require.NoError(t, q.Close())
		require.NoError(t, d.Close())
	}
}

// openUnsolicited opens a device that wants such writes, and a queue pair of it.
func openUnsolicited(t *testing.T, f *fake) (device.Device, *QP) {
	d, err := Open(Config{Kernel: f, Unsolicited: true})
	require.NoError(t, err)
	q, err := d.OpenQP(device.QPConfig{SQDepth: 4, RQDepth: 4})
	require.NoError(t, err)
	return d, q.(*QP)
}

//go:build linux

package uverbs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

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

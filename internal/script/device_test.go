package script

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

func newRig(t *testing.T, cfg Config) (*Rig, *Remote) {
	t.Helper()
	r, err := Start(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	x := NewRemote("x", 1, 1, 0xa1)
	r.AddRemote(x)
	r.Insert(x)
	return r, x
}

// newQP is a queue pair alone, with an address handle for x.
func newQP(t *testing.T, info device.Info, x *Remote) (*Device, *QP, device.AH) {
	t.Helper()
	d := NewDevice(info)
	_, err := d.OpenQP(device.QPConfig{SQDepth: 4, RQDepth: 2})
	require.NoError(t, err)
	ah, err := d.qp.CreateAH(x.Addr.GID())
	require.NoError(t, err)
	return d, d.qp, ah
}

func post(t *testing.T, q *QP, wr *device.SendWR) *Sent {
	t.Helper()
	require.NoError(t, q.PostSend(wr))
	q.Doorbell()
	return q.Sent()[len(q.Sent())-1]
}

// TestRDMA moves data to and from memory of the other side, and nowhere else.
func TestRDMA(t *testing.T) {
	x := NewRemote("x", 1, 1, 0xa1)
	_, q, ah := newQP(t, device.Info{RDMARead: true, RDMAWrite: true}, x)
	m := &Memory{GID: x.Addr.GID(), QPN: 1, Addr: 0x1000, Key: 7, Bytes: Pattern(100, 3)}
	q.AddMemory(m)

	data := make([]byte, 10)
	wr := device.SendWR{AH: ah, QPN: 1, Kind: device.WRRead, Payload: data, RKey: 7, Remote: 0x1005}
	q.Complete(post(t, q, &wr), device.StatusOK)
	require.Equal(t, Pattern(100, 3)[5:15], data)

	wr.Kind, wr.Remote = device.WRWrite, 0x1000+90
	q.Complete(post(t, q, &wr), device.StatusOK)
	require.Equal(t, data, m.Bytes[90:])

	for _, bad := range []device.SendWR{
		{AH: ah, QPN: 1, Kind: device.WRWrite, Payload: data, RKey: 8, Remote: 0x1000},
		{AH: ah, QPN: 2, Kind: device.WRWrite, Payload: data, RKey: 7, Remote: 0x1000},
		{AH: ah, QPN: 1, Kind: device.WRWrite, Payload: data, RKey: 7, Remote: 0xfff},
		{AH: ah, QPN: 1, Kind: device.WRRead, Payload: data, RKey: 7, Remote: 0x1000 + 91},
	} {
		s := post(t, q, &bad)
		q.Complete(s, device.StatusOK)
		require.Equal(t, device.StatusBadAddress, s.Status)
	}
	wr = device.SendWR{AH: ah, QPN: 1, Kind: device.WRRead, Payload: data}
	q.CompleteRead(post(t, q, &wr), Pattern(10, 8))
	require.Equal(t, Pattern(10, 8), data)
	require.Empty(t, q.Faults)
	q.CompleteRead(q.Sent()[0], nil)
	require.Len(t, q.Faults, 1)
}

// TestRDMAFaults: forbidden actions are noted.
func TestRDMAFaults(t *testing.T) {
	x := NewRemote("x", 1, 1, 0xa1)
	d, q, ah := newQP(t, device.Info{RDMAWrite: true, LocalKeys: true, MaxRDMA: 20}, x)
	require.ErrorIs(t, q.PostSend(&device.SendWR{AH: ah, Kind: device.WRRead}), device.ErrNotSupported)
	require.ErrorIs(t, q.PostSend(&device.SendWR{AH: ah, Kind: device.WRWrite, Payload: make([]byte, 21)}), device.ErrTooLong)
	require.Len(t, q.Faults, 2)
	plain := make([]byte, 20)
	require.NoError(t, q.PostSend(&device.SendWR{AH: ah, Kind: device.WRWrite, Payload: plain, LKey: 1}))
	require.Len(t, q.Faults, 3)
	mr, err := d.Register(plain, device.LocalWrite)
	require.NoError(t, err)
	require.Equal(t, uint32(1), mr.LKey())
	require.Equal(t, uint64(1<<40), mr.Addr())
	wr := &device.SendWR{AH: ah, Kind: device.WRWrite, Payload: plain[5:], LKey: 1}
	s := post(t, q, wr)
	require.Len(t, q.Faults, 3)
	plain[5]++ // the device has not read it yet
	q.Complete(s, device.StatusBadAddress)
	require.Len(t, q.Faults, 4)
}

// TestAccess: the memory that the other side's device may reach here, and the
// completions that it causes.
func TestAccess(t *testing.T) {
	x := NewRemote("x", 1, 1, 0xa1)
	d, q, ah := newQP(t, device.Info{}, x)
	mr, err := d.Alloc(100, device.RemoteRead)
	require.NoError(t, err)
	require.Len(t, q.Reach(mr.RKey(), mr.Addr()+90, 10, device.RemoteRead), 10)
	require.Nil(t, q.Reach(mr.RKey(), mr.Addr()+91, 10, device.RemoteRead))
	require.Nil(t, q.Reach(mr.RKey(), mr.Addr(), 10, device.RemoteWrite))
	require.NoError(t, mr.Close())
	require.Nil(t, q.Reach(mr.RKey(), mr.Addr(), 10, device.RemoteRead))

	require.False(t, q.Written(x.Addr.GID(), 1, 10, 5), "no receive is posted")
	q.PostRecv([]int32{1})
	require.True(t, q.Written(x.Addr.GID(), 1, 10, 5))
	q.RefuseRDMA(x.Addr.GID(), 1, 0)
	comps := make([]device.Completion, 4)
	require.Equal(t, 2, q.Poll(comps))
	require.Equal(t, device.Completion{
		ID: 1, Op: device.OpWritten, HasImm: true, Imm: 5, Len: 10, AH: ah, SrcQPN: 1,
	}, comps[0])
	require.Equal(t, device.OpRefused, comps[1].Op)
	require.Zero(t, q.Posted())
}

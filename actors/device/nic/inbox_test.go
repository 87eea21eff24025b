package nic

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

func newTestInbox(notify func(), single bool) *Inbox {
	return NewInbox(InboxConfig{
		QKey: 7, MTU: 16, Slots: 3, Recv: make([]byte, 3*20), Stride: 20, Events: 2,
		Notify: notify, Single: single,
	})
}

func packet(qkey uint32, header, payload string) *device.SendWR {
	return &device.SendWR{QKey: qkey, Header: []byte(header), Payload: []byte(payload)}
}

func TestInboxPlace(t *testing.T) {
	for _, single := range []bool{true, false} {
		b := newTestInbox(nil, single)
		from := Source{GID: testGID, QPN: 4}
		const long = "0123456789"
		require.Equal(t, device.StatusRNR, b.Place(&from, packet(7, "", "")))
		b.PostRecv([]int32{2, 0})
		require.Equal(t, 2, b.Posted())
		require.Equal(t, device.StatusBadDestQPN, b.Place(&from, packet(8, "x", "")))
		require.Equal(t, device.StatusRemoteBadLength, b.Place(&from, packet(7, long[:10], long[:7])))
		require.Equal(t, 2, b.Posted(), "a refused packet takes no slot")
		require.Equal(t, device.StatusOK, b.Place(&from, packet(7, "head", "payload")))
		require.Equal(t, "headpayload", string(b.recv[40:51]))
		from.Unknown = true
		require.Equal(t, device.StatusOK, b.Place(&from, packet(7, "", "")))
		require.Equal(t, device.StatusRNR, b.Place(&from, packet(7, "", "")))

		var c [4]device.Completion
		require.Equal(t, 2, b.Poll(c[:]))
		require.Equal(t, device.Completion{Op: device.OpRecv, ID: 2, Len: 11, SrcQPN: 4, SrcGID: testGID}, c[0])
		require.Equal(t, device.Completion{Op: device.OpRecv, ID: 0, SrcQPN: 4, SrcGID: testGID, AH: device.UnknownAH}, c[1])
		require.Zero(t, b.Poll(c[:]))

		b.PostRecv([]int32{1})
		b.Close()
		require.Equal(t, device.StatusBadDestQPN, b.Place(&from, packet(7, "late", "")))
		b.Ack(1, device.StatusOK)
		b.Gone(&from, 7)
		require.Zero(t, b.Poll(c[:]))
		require.False(t, b.Arm())
	}
}

func TestInboxArm(t *testing.T) {
	calls := 0
	b := newTestInbox(func() { calls++ }, true)
	b.PostRecv([]int32{0, 1, 2})
	from := Source{}
	var c [4]device.Completion

	b.Ack(1, device.StatusOK)
	require.Zero(t, calls, "not armed")
	require.False(t, b.Arm(), "something is ready")
	require.Equal(t, 1, b.Poll(c[:]))

	for i, arrive := range []func(){
		func() { b.Place(&from, packet(7, "", "")) },
		func() { b.Ack(1, device.StatusOK) },
		func() { b.Gone(&from, 1) },
	} {
		require.True(t, b.Arm())
		require.True(t, b.Armed())
		arrive()
		arrive()
		require.Equal(t, i+1, calls, "once")
		require.False(t, b.Armed())
		require.Equal(t, 2, b.Poll(c[:]))
	}
	require.True(t, b.Arm())
	b.Place(&from, packet(9, "", ""))
	require.Equal(t, 3, calls, "a refused packet wakes nobody")
	require.Zero(t, b.Poll(nil))
	require.False(t, b.Armed(), "a poll disarms")
	require.True(t, b.Arm())
	b.Wake()
	b.Wake()
	require.Equal(t, 4, calls)
}

// TestInboxKeepsUp runs many events through while some always stay unread: the
// list does not grow.
func TestInboxKeepsUp(t *testing.T) {
	b := newTestInbox(nil, true)
	room := cap(b.events)
	var c [1]device.Completion
	b.Ack(0, device.StatusOK)
	for i := range uint64(1000) {
		b.Ack(i+1, device.StatusOK)
		require.Equal(t, 1, b.Poll(c[:]))
		require.Equal(t, i, c[0].ID)
	}
	require.Equal(t, room, cap(b.events))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		b.Ack(1, device.StatusOK)
		b.Poll(c[:])
	}))
}

func TestInboxImmediate(t *testing.T) {
	b := newTestInbox(nil, true)
	b.PostRecv([]int32{0})
	wr := packet(7, "x", "")
	wr.HasImm, wr.Imm = true, 0xfeed
	require.Equal(t, device.StatusOK, b.Place(&Source{}, wr))
	var c [1]device.Completion
	require.Equal(t, 1, b.Poll(c[:]))
	require.Equal(t, device.Completion{Op: device.OpRecv, Len: 1, HasImm: true, Imm: 0xfeed}, c[0])
}

// rdmaInbox is an inbox of three slots, none posted, with a region.
func rdmaInbox(t *testing.T, unsolicited, single bool, calls *int) (*Inbox, *Regions, *Region) {
	b := NewInbox(InboxConfig{
		QKey: 7, MTU: 16, Slots: 3, Recv: make([]byte, 3*20), Stride: 20, Events: 2,
		Single: single, Unsolicited: unsolicited, Notify: func() { *calls++ },
	})
	rs := counted(0)
	return b, rs, add(t, rs, Memory{Bytes: []byte("0123456789"), Access: anyAccess})
}

func TestInboxRDMA(t *testing.T) {
	for _, single := range []bool{true, false} {
		calls := 0
		b, rs, r := rdmaInbox(t, false, single, &calls)
		from := Source{GID: testGID, QPN: 4}
		local := []byte("abcdefgh")
		read := device.SendWR{Kind: device.WRRead, QKey: 7, Payload: local[:4], RKey: r.RKey(), Remote: r.Addr() + 6}
		write := device.SendWR{Kind: device.WRWrite, QKey: 7, Payload: local[6:], RKey: r.RKey(), Remote: r.Addr()}

		require.Equal(t, device.StatusOK, b.RDMA(&from, &read, rs))
		require.Equal(t, "6789efgh", string(local))
		require.Equal(t, device.StatusOK, b.RDMA(&from, &write, rs))
		require.Equal(t, "gh23456789", string(r.Bytes()))

		bad := write
		bad.QKey = 8
		require.Equal(t, device.StatusBadDestQPN, b.RDMA(&from, &bad, rs))
		require.True(t, b.Arm(), "nothing of this shows")
		bad = write
		bad.RKey++
		require.Equal(t, device.StatusBadAddress, b.RDMA(&from, &bad, rs))
		require.Equal(t, 1, calls)
		var c [4]device.Completion
		require.Equal(t, 1, b.Poll(c[:]))
		require.Equal(t, device.Completion{Op: device.OpRefused, SrcGID: testGID, SrcQPN: 4, ID: bad.RKey, Status: device.RefusalOf(false)}, c[0])

		write.HasImm, write.Imm = true, 0xabc
		write.Remote++
		require.Equal(t, device.StatusRNR, b.RDMA(&from, &write, rs))
		require.Equal(t, "gh23456789", string(r.Bytes()), "refused, and not carried out")
		b.PostRecv([]int32{2})
		require.True(t, b.Arm())
		require.Equal(t, device.StatusOK, b.RDMA(&from, &write, rs))
		require.Equal(t, 2, calls)
		require.Equal(t, "ggh3456789", string(r.Bytes()))
		require.Zero(t, b.Posted())
		from.Unknown = true
		b.PostRecv([]int32{0})
		require.Equal(t, device.StatusOK, b.RDMA(&from, &write, rs))
		require.Equal(t, 2, b.Poll(c[:]))
		want := device.Completion{Op: device.OpWritten, ID: 2, Len: 2, HasImm: true, Imm: 0xabc, SrcQPN: 4, SrcGID: testGID}
		require.Equal(t, want, c[0])
		want.ID, want.AH = 0, device.UnknownAH
		require.Equal(t, want, c[1])

		b.PostRecv([]int32{1})
		b.Close()
		for _, wr := range []*device.SendWR{&read, &write, &bad} {
			require.Equal(t, device.StatusBadDestQPN, b.RDMA(&from, wr, rs))
		}
		require.NoError(t, r.Close(), "nothing is held")
	}
}

// TestInboxLoose: arrivals that take no slot wait in bounded room.
func TestInboxLoose(t *testing.T) {
	calls := 0
	b, rs, r := rdmaInbox(t, true, true, &calls)
	room := cap(b.events)
	write := device.SendWR{Kind: device.WRWrite, QKey: 7, HasImm: true, RKey: r.RKey(), Remote: r.Addr()}
	bad := write
	bad.RKey++
	var c [8]device.Completion
	for range 100 {
		for range 2 {
			require.Equal(t, device.StatusOK, b.RDMA(&Source{}, &write, rs))
		}
		for range 5 {
			require.Equal(t, device.StatusBadAddress, b.RDMA(&Source{}, &bad, rs))
		}
		require.Equal(t, device.StatusRNR, b.RDMA(&Source{}, &write, rs))
		require.Equal(t, 3, b.Poll(c[:]), "two writes and one report")
		require.Equal(t, device.NoSlot, c[0].ID)
		require.Equal(t, device.OpWritten, c[1].Op)
		require.Equal(t, device.OpRefused, c[2].Op)
	}
	require.Equal(t, room, cap(b.events))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		b.RDMA(&Source{}, &write, rs)
		b.Poll(c[:])
	}))
}

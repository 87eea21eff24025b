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

package ope

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/atomics"
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// TestTally counts outcomes by kind, and errors by type.
func TestTally(t *testing.T) {
	var c Tally
	c.Count(KindSend, 10, nil)
	c.Count(KindSend, 20, nil)
	c.Count(KindRecv, 5, nil)
	require.Nil(t, c.Errors, "no failure, no map")
	c.Count(KindSend, 7, peer.ErrDied)
	c.Count(KindRead, 0, fmt.Errorf("a read: %w", peer.ErrDied))
	c.Count(KindRecv, 3, &Truncated{Placed: 3, Lost: 1})
	require.Equal(t, [NumKinds]uint64{KindSend: 2, KindRecv: 1}, c.OK)
	require.Equal(t, [NumKinds]uint64{KindSend: 1, KindRead: 1, KindRecv: 1}, c.Failed)
	require.Equal(t, [NumKinds]uint64{KindSend: 37, KindRecv: 8}, c.Bytes)
	require.Equal(t, map[string]uint64{"peer_died": 2, "FI_ETRUNC": 1}, c.Errors)
}

// TestErrorType: an error is counted by its cause, else by libfabric's number.
func TestErrorType(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{peer.ErrDied, "peer_died"},
		{fmt.Errorf("a send: %w", peer.ErrSilent), "peer_silent"},
		{peer.ErrReplaced, "peer_replaced"},
		{peer.ErrAborted, "peer_aborted"},
		{peer.ErrRefused, "peer_refused"},
		{peer.ErrPeerFailed, "peer_failed"},
		{&peer.RemoteError{Err: peer.ErrRefused, Provider: errno.ProvRMAAddr}, "peer_refused"},
		{peer.ErrStopped, "FI_ESHUTDOWN"},
		{ErrRegionClosed, "region_closed"},
		{errno.ErrCanceled, "FI_ECANCELED"},
		{errTooLong, "FI_EMSGSIZE"},
		{errNoDC, "FI_EOPNOTSUPP"},
		{fmt.Errorf("%w: %w", ErrInternal, ErrViolation), "internal"},
		{ErrViolation, "protocol_violation"},
		{fmt.Errorf("%w: %w", errno.ErrIO, ErrViolation), "protocol_violation"},
		{errors.New("another"), "_OTHER"},
	} {
		require.Equal(t, c.want, ErrorType(c.err), c.err)
	}
	names := map[string]bool{}
	for _, c := range causes {
		require.False(t, names[c.name], "two causes are called %s", c.name)
		names[c.name] = true
		require.Equal(t, c.name, ErrorType(c.err), "a cause before it has it")
	}
}

// TestRole: the trail's roles and flags of requests.
func TestRole(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		form atomics.Form
		want trail.Role
	}{
		{KindSend, 0, trail.Send},
		{KindRecv, 0, trail.Receive},
		{KindPeek, 0, trail.Receive},
		{KindClaim, 0, trail.Receive},
		{KindTake, 0, trail.Receive},
		{KindWrite, 0, trail.Write},
		{KindRead, 0, trail.Read},
		{KindAtomic, AtomicWrite, trail.AtomicWrite},
		{KindAtomic, AtomicFetch, trail.AtomicFetch},
		{KindAtomic, AtomicCompare, trail.AtomicCompare},
	} {
		r := &Request{Kind: c.kind, Form: c.form}
		require.Equal(t, c.want, r.role(), "%+v", c)
		require.NotEmpty(t, requestKinds[r.role()], "a name for people")
	}
	for flags, want := range map[Flags]uint32{
		0:                          0,
		Tagged:                     trail.FlagTagged,
		HasData | Deliver:          trail.FlagData | trail.FlagDeliver,
		Inject | Quiet:             trail.FlagInject,
		Borrowed | Fence | Ordered: 0,
		Tagged | HasData | Inject:  trail.FlagTagged | trail.FlagData | trail.FlagInject,
	} {
		require.Equal(t, want, (&Request{Flags: flags}).flags(), "%b", flags)
	}
}

// TestSentBatch: one record has the first packet's type, and the sums.
func TestSentBatch(t *testing.T) {
	var s sentBatch
	var p device.Pke
	for _, h := range [][]byte{{byte(wire.TypeMediumMsgRTM)}, {byte(wire.TypeCTSData)}} {
		p.Fill(append(p.Header(), h...), make([]byte, 10))
		s.add(&p)
	}
	require.Equal(t, sentBatch{bytes: 20, n: 2, first: uint8(wire.TypeMediumMsgRTM)}, s)
}

// TestTxWaits: a snapshot says what an operation that sends waits for.
func TestTxWaits(t *testing.T) {
	open, busy := &peer.Link{Handshaken: true}, new(peer.Link)
	busy.SetBackingOff(true)
	for _, c := range []struct {
		want string
		tx   Txe
	}{
		{"its next turn on the shard", Txe{link: open, m: Tx{State: TxReq, Proto: Medium}}},
		{"its next turn on the shard, the acknowledgement of 1 packet", Txe{link: open, m: Tx{State: TxSend, Flying: 1}}},
		{"CTS", Txe{link: open, m: Tx{State: TxWait, Proto: LongCTS}}},
		{"CTS, the acknowledgement of 3 packets", Txe{link: open, m: Tx{State: TxWait, Proto: LongCTS, Flying: 3}}},
		{"RECEIPT", Txe{link: open, m: Tx{State: TxAwait, Proto: DCMedium}}},
		{"EOR", Txe{link: open, m: Tx{State: TxAwait, Proto: LongRead}}},
		{"ATOMRSP", Txe{link: open, m: Tx{State: TxAwait, Proto: FetchAtomic}}},
		{"the acknowledgement of 2 packets", Txe{link: open, m: Tx{State: TxDrain, Flying: 2}}},
		{"room in the send queue", Txe{link: open, marks: marks{slotWaits: true}, m: Tx{State: TxSend}}},
		{"the end of back-off after RNR", Txe{link: busy, m: Tx{State: TxWait}}},
	} {
		require.Equal(t, c.want, c.tx.waits())
	}
}

// TestRxWaits: the same of one that receives.
func TestRxWaits(t *testing.T) {
	open, busy := new(peer.Link), new(peer.Link)
	busy.SetBackingOff(true)
	for _, c := range []struct {
		want string
		rx   Rxe
	}{
		{"a receive that matches", Rxe{link: open, m: Rx{State: RxInit}}},
		{"a receive that matches", Rxe{link: open, m: Rx{State: RxUnexp, Total: 10}}},
		{"packets with 6 bytes", Rxe{link: open, m: Rx{State: RxMatched, Proto: Medium, Total: 10, packets: 10, Got: 4}}},
		{"CTSDATA: 6 bytes are granted", Rxe{link: open, m: Rx{State: RxMatched, Proto: LongCTS, Total: 10, packets: 10, Got: 4, Window: 6}}},
		{"READRSP", Rxe{link: open, m: Rx{State: RxMatched, Proto: ShortRead, Window: 6}}},
		{"CTSDATA: 6 bytes are granted", Rxe{link: open, rsp: true, m: Rx{State: RxMatched, Proto: LongCTSRead, Window: 6}}},
		{"2 RDMA reads with the device", Rxe{link: open, m: Rx{State: RxMatched, Proto: LongRead, reading: 2}}},
		{"the message in packets, after READ_NACK", Rxe{link: open, x: &rxExt{nacked: true}, m: Rx{State: RxMatched, Proto: LongRead}}},
		{"room in the send queue", Rxe{link: open, slotWaits: true, m: Rx{State: RxAnswer}}},
		{"the end of back-off after RNR", Rxe{link: busy, pending: pendingAnswer, m: Rx{State: RxAnswer}}},
		{"", Rxe{link: busy, m: Rx{State: RxAnswer}}},
		{"the acknowledgement of 1 packet", Rxe{link: open, flying: 1, m: Rx{State: RxDone}}},
	} {
		require.Equal(t, c.want, c.rx.waits())
	}
}

// TestOrderSnapshot describes a request that nothing has matched.
func TestOrderSnapshot(t *testing.T) {
	tag := uint64(9)
	for _, c := range []struct {
		req  Request
		want Snapshot
	}{
		{Request{Kind: KindRecv, ID: 4, Buf: make([]byte, 10)}, Snapshot{Kind: "receive", ID: 4, Bytes: 10}},
		{Request{Kind: KindRecv, Flags: Tagged, Tag: tag}, Snapshot{Kind: "receive", Tag: &tag}},
		{Request{Kind: KindPeek}, Snapshot{Kind: "peek"}},
		{Request{Kind: KindClaim}, Snapshot{Kind: "claim"}},
	} {
		o := &Entry{Req: c.req, Born: clock.Time(100)}
		c.want.Waits, c.want.Age, c.want.Still = "a message that matches", 50, 50
		require.Equal(t, c.want, o.Snapshot(clock.Time(150)))
	}
}

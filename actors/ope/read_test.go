package ope

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// TestReadSource finds the peer's memory of a message or write that is read, in pieces as long as
// the message in all.
func TestReadSource(t *testing.T) {
	src := []wire.RMAIOV{{Addr: 1000, Len: 4, Key: 1}, {Addr: 2000, Len: 6, Key: 2}, {Addr: 3000, Len: 1, Key: 3}}
	d := &rxExt{r: &Rxe{m: Rx{Proto: LongRead, Total: 11}}, nsrc: len(src)}
	copy(d.src[:], src)
	for _, c := range []struct {
		off   uint64
		piece int
		at    uint64
	}{{0, 0, 0}, {3, 0, 3}, {4, 1, 0}, {9, 1, 5}, {10, 2, 0}} {
		got, at := d.source(c.off)
		require.Equal(t, src[c.piece], got, "byte %d", c.off)
		require.Equal(t, c.at, at, "byte %d", c.off)
	}
	// A read of ours finds it in the request.
	d.r.m.Proto, d.r.m.Total, d.r.entry = DirectRead, 10, &Entry{Req: *threePieces()}
	got, at := d.source(5)
	require.Equal(t, wire.RMAIOV{Addr: 2001, Len: 5, Key: 2}, got)
	require.Zero(t, at)
}

// TestReadTarget: where what is read goes, as far as one request can put it there.
func TestReadTarget(t *testing.T) {
	write := &Rxe{m: Rx{Proto: LongReadWrite}, x: &rxExt{ndst: 3}}
	copy(write.x.dst[:], threePieces().More.Local)
	write.x.lkeys = [wire.MaxIOV]uint32{11, 12, 13}
	pieces := &Rxe{entry: &Entry{Req: *threePieces()}, x: new(rxExt)}
	buffer := &Rxe{entry: &Entry{Req: Request{Buf: []byte("abcdefghij")}}, x: &rxExt{lkey: 10}}
	for _, c := range []struct {
		name      string
		r         *Rxe
		off, most uint64
		want      string
		lkey      uint32
	}{
		{"a buffer", buffer, 2, 4, "cdef", 10},
		{"a write", write, 0, 2, "ab", 11},
		{"a write, to the end of a piece", write, 1, 9, "bc", 11},
		{"a write, the next piece", write, 3, 7, "defgh", 12},
		{"a write, the last piece", write, 9, 1, "j", 13},
		{"pieces", pieces, 0, 2, "ab", 0},
		{"pieces, to the end of one", pieces, 4, 6, "efgh", 0},
	} {
		c.r.x.r = c.r
		got, lkey := c.r.x.local(c.off, c.most)
		require.Equal(t, c.want, string(got), c.name)
		require.Equal(t, c.lkey, lkey, c.name)
	}
}

// TestExpects: an operation that has all its bytes may still have to hear from its peer.
func TestExpects(t *testing.T) {
	for _, c := range []struct {
		name string
		rx   Rxe
		x    rxExt
		want bool
	}{
		{"a message that was read", Rxe{m: Rx{Proto: LongRead}}, rxExt{}, false},
		{"READ_NACK is to be sent", Rxe{m: Rx{Proto: LongRead}}, rxExt{refusing: true}, true},
		{"the replacement is to come", Rxe{m: Rx{Proto: LongRead}}, rxExt{nacked: true}, true},
		{"a read of nothing", Rxe{m: Rx{Proto: ShortRead}}, rxExt{}, true},
		{"its answer came", Rxe{rsp: true, m: Rx{Proto: ShortRead}}, rxExt{}, false},
		{"a read by the device has no answer", Rxe{m: Rx{Proto: DirectRead}}, rxExt{}, false},
	} {
		c.x.r = &c.rx
		require.Equal(t, c.want, c.x.expects(), c.name)
	}
}

// TestReads: EOR is due if some of the message was to be read.
func TestReads(t *testing.T) {
	for _, c := range []struct {
		m    Rx
		want bool
	}{
		{Rx{Proto: LongRead, Total: 10}, true},
		{Rx{Proto: LongReadWrite, Total: 10}, true},
		{Rx{Proto: LongRead}, true}, // the sender waits for EOR all the same
		{Rx{Proto: RuntRead, Total: 10, packets: 4}, true},
		{Rx{Proto: RuntRead, Total: 10, packets: 10}, false},
		{Rx{Proto: Medium, Total: 10, packets: 10}, false},
		{Rx{Proto: DirectRead, Total: 10}, false},
	} {
		require.Equal(t, c.want, (&rxExt{r: &Rxe{m: c.m}}).reads(), "%+v", c.m)
	}
}

// TestAwaited: whether the peer of an operation that ends early waits for a packet of ours.
func TestAwaited(t *testing.T) {
	for _, c := range []struct {
		name string
		m    Rx
		want bool
	}{
		{"a message by CTS", Rx{State: RxMatched, Proto: LongCTS}, true},
		{"one without a receive", Rx{State: RxUnexp, Proto: LongCTS}, true},
		{"RECEIPT is to come", Rx{State: RxMatched, Proto: DCEager}, true},
		{"EOR is to come", Rx{State: RxInit, Proto: LongRead}, true},
		{"nothing is to come", Rx{State: RxMatched, Proto: Medium}, false},
		{"RECEIPT is posted", Rx{State: RxAnswer, Proto: DCEager}, false},
		{"it is over", Rx{State: RxDone, Proto: LongCTS}, false},
		{"a read of ours", Rx{State: RxMatched, Proto: LongCTSRead}, false},
		{"a read of ours that is not out", Rx{State: RxAsk}, false},
		{"a read by the device", Rx{State: RxMatched, Proto: DirectRead}, false},
	} {
		require.Equal(t, c.want, (&Rxe{m: c.m, link: new(peer.Link)}).awaited(), c.name)
	}
}

// TestRequestID: an operation is canceled by the id of its request. To cancel a buffer for many
// messages is not to cancel the messages in it.
func TestRequestID(t *testing.T) {
	require.Zero(t, new(Rxe).RequestID(), "a peer's write")
	require.EqualValues(t, 7, (&Rxe{entry: &Entry{Req: Request{ID: 7}}}).RequestID())
	require.NotEqualValues(t, 7, (&Rxe{entry: &Entry{Req: Request{ID: 7, Flags: Part}}}).RequestID())
}

package ope

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// TestStore: data goes to the pieces of a receive's memory, or of that which a peer writes to.
func TestStore(t *testing.T) {
	for _, c := range []struct {
		off        uint64
		data, want string
	}{
		{0, "", "abc|defgh|ij"},
		{0, "XY", "XYc|defgh|ij"},
		{2, "XY", "abX|Yefgh|ij"},
		{3, "12345", "abc|12345|ij"},
		{0, "0123456789", "012|34567|89"},
		{8, "XYZ", "abc|defgh|XY"},
	} {
		q := threePieces()
		recv := &Rxe{entry: &Entry{Req: *q}}
		recv.store(c.off, []byte(c.data))
		require.Equal(t, c.want, join(q.More.Local), "a receive: %q at %d", c.data, c.off)

		target := &Rxe{x: &rxExt{ndst: 3}}
		copy(target.x.dst[:], threePieces().More.Local)
		target.store(c.off, []byte(c.data))
		require.Equal(t, c.want, join(target.x.dst[:3]), "a write: %q at %d", c.data, c.off)
	}
	require.NotPanics(t, func() { new(Rxe).store(0, []byte("x")) }, "it has no place")
}

func join(pieces [][]byte) (s string) {
	for i, p := range pieces {
		if i > 0 {
			s += "|"
		}
		s += string(p)
	}
	return s
}

// TestWindow: what a receiver grants at a time, and when.
func TestWindow(t *testing.T) {
	p := &Pools{Policy: new(Policy), maxData: 1000}
	p.Policy.Credits = 3
	for _, c := range []struct {
		name string
		rx   Rxe
		want uint64
	}{
		{"as much as is allowed", Rxe{m: Rx{State: RxMatched, Proto: LongCTS, packets: 5000}}, 3000},
		{"as much as is missing", Rxe{m: Rx{State: RxMatched, Proto: LongCTS, packets: 5000, Got: 4000}}, 1000},
		{"no receive has matched", Rxe{m: Rx{State: RxUnexp, Proto: LongCTS, packets: 5000}}, 0},
		{"a window is open", Rxe{m: Rx{State: RxMatched, Proto: LongCTS, packets: 5000, Window: 1}}, 0},
		{"a message that needs none", Rxe{m: Rx{State: RxMatched, Proto: Medium, packets: 5000}}, 0},
		{"a read whose READRSP is to come", Rxe{m: Rx{State: RxMatched, Proto: LongCTSRead, packets: 5000}}, 0},
		{"a read whose READRSP came", Rxe{rsp: true, m: Rx{State: RxMatched, Proto: LongCTSRead, packets: 5000, Got: 900}}, 3000},
	} {
		c.rx.pools = p
		require.Equal(t, c.want, c.rx.grant(), c.name)
	}
}

// TestSegments: packets of a message that no receive has matched wait in the order of their coming.
func TestSegments(t *testing.T) {
	first := &peer.Packet{Payload: []byte("a")}
	r := &Rxe{head: first, stored: 1, m: Rx{State: RxInit, Proto: Medium, Total: 10}}
	for _, payload := range []string{"bc", "d", "efg"} {
		p := &peer.Packet{Payload: []byte(payload)}
		p.Type = wire.TypeMediumMsgRTM
		r.onSegment(p)
	}
	got := ""
	for p := r.head; p != nil; p = p.Next {
		got += string(p.Payload) + " "
	}
	require.Equal(t, "a bc d efg ", got)
	require.EqualValues(t, 7, r.stored)
	require.False(t, r.IsHere(10))
	r.stored = 10
	require.True(t, r.IsHere(10))
	require.False(t, r.IsHere(9), "there is no room")
}

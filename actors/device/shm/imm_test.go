//go:build linux

package shm

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

// A write with immediate reports the bytes written and their requester, after the
// data, and takes a slot for it.
func TestWriteImmediate(t *testing.T) {
	c := newCouple(t, maxRDMA, remoteAll)
	back, err := c.b.CreateAH(portBehind(c.a).gid)
	require.NoError(t, err)
	take := func(n int) (list []device.Completion) {
		for len(list) < n {
			pollOnce(c.b, func(e device.Completion) {
				list = append(list, e)
				c.b.PostRecv([]int32{int32(e.ID)})
			})
		}
		return list
	}
	for i, n := range []int{0, 1, 100, maxRDMA} {
		for round := range 20 { // more than there are slots
			imm := uint32(i<<30 | round)
			wr := c.wr(device.WRWrite, parcel(make([]byte, max(n, 16)), uint64(round))[:n], 0)
			wr.HasImm, wr.Imm = true, imm
			c.ends(wr, device.StatusOK)
			got := take(1)[0]
			require.Less(t, got.ID, uint64(2))
			got.ID = 0
			require.Equal(t, device.Completion{
				Op: device.OpWritten, HasImm: true, Imm: imm, Len: n, AH: back, SrcQPN: c.a.QPN(),
			}, got)
			require.Equal(t, wr.Payload, c.mr.Bytes()[:n])
		}
	}
	for _, whole := range []uint32{99, 100, 101, math.MaxUint32} { // the last part of a write that was cut
		wr := c.wr(device.WRWrite, make([]byte, 100), 0)
		wr.HasImm, wr.Whole = true, whole
		c.ends(wr, device.StatusOK)
		require.Equal(t, max(100, int(whole)), take(1)[0].Len)
	}
	wr := c.wr(device.WRWrite, nil, 0)
	wr.HasImm = true
	send := &device.SendWR{AH: c.ah, QPN: c.b.QPN(), QKey: testQKey, Payload: []byte("packet")}
	c.ends(send, device.StatusOK)
	c.ends(wr, device.StatusOK)
	c.ends(wr, device.StatusRNR)
	c.ends(send, device.StatusRNR)
	got := take(2)
	require.ElementsMatch(t, []device.Op{device.OpRecv, device.OpWritten}, []device.Op{got[0].Op, got[1].Op})
}

// A note that makes no sense is not believed, and costs no slot.
func TestWrongNote(t *testing.T) {
	c := newCouple(t, 1, device.RemoteWrite)
	wr := c.wr(device.WRWrite, nil, 0)
	wr.HasImm = true
	c.ends(wr, device.StatusOK)
	p, l := portBehind(c.b), portBehind(c.a).links.get(c.b.QPN())
	for p.rx.head == 0 {
		pollOnce(c.b, func(e device.Completion) { c.b.PostRecv([]int32{int32(e.ID)}) })
	}
	for i, n := range []struct {
		m    word
		note []byte
	}{
		{written, make([]byte, noteBytes)}, // no immediate
		{written | withImm, nil},
		{written | withImm, make([]byte, noteBytes-1)},
		{written | withImm, make([]byte, noteBytes+1)},
		{written | withImm, bytes.Repeat([]byte{255}, noteBytes)},
	} {
		require.Equal(t, sent, l.send(&device.SendWR{Header: n.note}, n.m))
		for p.bad == uint64(i) {
			pollOnce(c.b, func(device.Completion) { t.Fatal("believed") })
		}
	}
	c.ends(wr, device.StatusOK)
	c.ends(wr, device.StatusOK)
	c.ends(wr, device.StatusRNR)
}

// The immediate of a packet comes with packets of every size.
func TestSendImmediate(t *testing.T) {
	c := newCouple(t, 1, 0)
	for n := range 300 {
		wr := &device.SendWR{
			AH: c.ah, QPN: c.b.QPN(), QKey: testQKey, HasImm: n%3 > 0, Imm: ^uint32(n),
			Header: parcel(make([]byte, max(n, 16)), uint64(n))[:n],
		}
		c.ends(wr, device.StatusOK)
		for got := false; !got; {
			pollOnce(c.b, func(e device.Completion) {
				got = true
				require.Equal(t, wr.HasImm, e.HasImm)
				if e.HasImm {
					require.Equal(t, wr.Imm, e.Imm)
				}
				require.Equal(t, string(wr.Header), string(c.b.RecvBytes(int(e.ID))[:e.Len]))
				c.b.PostRecv([]int32{int32(e.ID)})
			})
		}
	}
}

//go:build linux

package uverbs

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// TestGoldenWQE: the bytes of an inline send with immediate are those that libefa 44 was
// seen to write.
func TestGoldenWQE(t *testing.T) {
	f := newFake(t)
	f.limits.InlineEx = 0 // 64 bytes
	f.ah = func() uint16 { return 0x11 }
	_, q, ah := f.open(device.QPConfig{SQDepth: 4})
	q.sq.ids.tag = 0
	require.NoError(t, q.PostSend(&device.SendWR{
		AH: ah, QPN: 7, QKey: 0x11223344, HasImm: true, Imm: abi.Immediate(0xcafebabe), Header: []byte("inli"), Payload: []byte("ne!\x00"),
	}))
	got := f.mem[keyLLQ][f.qp.LLQOff:][:64]
	require.Equal(t, make([]byte, 64), got, "nothing before the doorbell")
	q.Doorbell()
	want, err := hex.DecodeString(strings.ReplaceAll(
		"0000b01c 07000800 bebafeca 11000000 44332211 00000000 00000000 00000000 696e6c696e652100", " ", ""))
	require.NoError(t, err)
	require.Equal(t, append(want, make([]byte, 24)...), got)
	require.EqualValues(t, 1, f.bell(keySQBell, f.qp.SQDoorbellOff).Load())
	require.NoError(t, q.Close())
}

// TestSendForms: what a send looks like by its length and keys, in both sizes of WQE.
func TestSendForms(t *testing.T) {
	for _, wide := range []bool{false, true} {
		f := newFake(t)
		size, inline := abi.WideWQELen, 80
		if !wide {
			f.limits.InlineEx, size, inline = 0, abi.WQELen, 32
		}
		d, q, ah := f.open(device.QPConfig{SQDepth: 8})
		require.Equal(t, size, q.sq.shape.wqe)
		region := make([]byte, 4096)
		long := bytes.Repeat([]byte("x"), 4096)
		send := func(n int, wr device.SendWR) abi.WQE {
			wr.AH = ah
			require.NoError(t, q.PostSend(&wr))
			q.Doorbell()
			w := f.wqe(q, n)
			require.Zero(t, w.Reserved)
			require.True(t, w.Meta && w.First && w.Last && w.CompReq)
			return w
		}
		w := send(0, device.SendWR{})
		require.True(t, w.Inline && w.Length == 0)
		w = send(1, device.SendWR{Header: long[:2], Payload: long[2:inline]})
		require.True(t, w.Inline && string(w.Data) == string(long[:inline]))
		w = send(2, device.SendWR{Header: long[:2], Payload: long[2 : inline+1]})
		require.True(t, !w.Inline && w.Length == 1)
		require.Equal(t, abi.SGE{Length: uint32(inline + 1), LKey: q.sq.lkey, Addr: addressOf(q.sq.copyOf(2))}, w.SGE[0])
		require.Equal(t, long[:inline+1], q.sq.copyOf(2)[:inline+1])
		w = send(3, device.SendWR{Header: []byte("head"), Payload: region, LKey: 0x77})
		require.EqualValues(t, 2, w.Length)
		require.Equal(t, abi.SGE{Length: 4, LKey: q.sq.lkey, Addr: addressOf(q.sq.copyOf(3))}, w.SGE[0])
		require.Equal(t, abi.SGE{Length: 4096, LKey: 0x77, Addr: addressOf(region)}, w.SGE[1])
		require.Equal(t, "head", string(q.sq.copyOf(3)[:4]))
		w = send(4, device.SendWR{Payload: region, LKey: 0x77})
		require.EqualValues(t, 1, w.Length)
		require.Equal(t, abi.SGE{Length: 4096, LKey: 0x77, Addr: addressOf(region)}, w.SGE[0])
		w = send(5, device.SendWR{Payload: region, LKey: 0x77, More: []device.Piece{{Mem: long[:10]}}})
		require.EqualValues(t, 1, w.Length, "more than two pieces are copied")
		require.Equal(t, q.sq.lkey, w.SGE[0].LKey)
		w = send(6, device.SendWR{Kind: device.WRRead, Payload: region, LKey: 0x78, Remote: 1 << 40, RKey: 0xfedcba98})
		require.Equal(t, abi.WorkRead, w.Op)
		require.Equal(t, abi.SGE{Length: 4096, LKey: 0x78, Addr: addressOf(region)}, w.SGE[0])
		require.Equal(t, abi.RemoteAddr{Length: 4096, RKey: 0xfedcba98, Addr: 1 << 40}, w.Remote)
		w = send(7, device.SendWR{Kind: device.WRWrite, More: []device.Piece{{Mem: region[:5], LKey: 0x79}}, HasImm: true, Imm: 9})
		require.Equal(t, abi.WorkWrite, w.Op)
		require.True(t, w.HasImm && w.Imm == 9<<24)
		require.Equal(t, abi.SGE{Length: 5, LKey: 0x79, Addr: addressOf(region)}, w.SGE[0])
		require.NoError(t, q.Close())
		require.NoError(t, d.Close())
	}
}

// TestBatches: the card gets no more WQEs with a doorbell than it takes, and otherwise all
// with one; phases and places follow the laps of the ring.
func TestBatches(t *testing.T) {
	for _, c := range []struct {
		txBatch, minSQ uint16 // of the card
		most           uint32
	}{
		{0, 0, 16}, {0, 4, 15}, {16, 0, 8}, {3, 0, 1}, {1, 0, 1},
	} {
		f := newFake(t)
		f.limits.MaxTxBatch, f.limits.MinSQ = c.txBatch, c.minSQ
		d, q, ah := f.open(device.QPConfig{SQDepth: 16})
		require.Equal(t, c.most, q.sq.batch, "%+v", c)
		sent := 0
		for _, burst := range []int{16, 5, 16, 1, 11, 3, 16, 16} {
			for range burst {
				require.NoError(t, q.PostSend(&device.SendWR{ID: uint64(sent), AH: ah, Header: []byte{byte(sent)}}))
				sent++
			}
			q.Doorbell()
			q.Doorbell()
			require.EqualValues(t, sent, f.bell(keySQBell, f.qp.SQDoorbellOff).Load())
			for n := sent - burst; n < sent; n++ {
				w := f.wqe(q, n)
				require.Equal(t, []byte{byte(n)}, w.Data, "WQE %d", n)
				require.Equal(t, n/16%2 == 1, w.Phase)
				f.complete(n, abi.CQE{Queue: abi.SendQueue, QPN: fakeQPN, ReqID: w.ReqID})
			}
			var comps [32]device.Completion
			require.Equal(t, burst, q.Poll(comps[:]))
			for i := range burst {
				require.EqualValues(t, sent-burst+i, comps[i].ID)
			}
		}
		require.NoError(t, q.Close())
		require.NoError(t, d.Close())
	}
}

// TestReceiveRing: descriptors name slots, one doorbell for all, round the ring.
func TestReceiveRing(t *testing.T) {
	f := newFake(t)
	_, q, _ := f.open(device.QPConfig{RQDepth: 3})
	total := 0
	for range 5 {
		q.PostRecv([]int32{2, 0, 1, 1, -1, 3})
		require.EqualValues(t, total+3, f.bell(keyRQBell, f.qp.RQDoorbellOff).Load())
		for i, slot := range []int{2, 0, 1} {
			var got abi.RxDesc
			require.NoError(t, got.Parse(f.mem[keyRQ][(total+i)%4*abi.RxDescLen:]))
			require.Equal(t, abi.RxDesc{
				Addr: addressOf(q.RecvBytes(slot)), ReqID: q.rq.ids.id(uint16(slot)), Length: 8928, LKey: 0x123456, First: true, Last: true,
			}, got)
			f.complete(total+i, abi.CQE{Queue: abi.RecvQueue, QPN: fakeQPN, ReqID: uint64(got.ReqID), AH: abi.UnknownAH})
		}
		total += 3
		var c [3]device.Completion
		require.Equal(t, 3, q.Poll(c[:]))
		require.EqualValues(t, []uint64{2, 0, 1}, []uint64{c[0].ID, c[1].ID, c[2].ID})
	}
	require.NoError(t, q.Close())
}

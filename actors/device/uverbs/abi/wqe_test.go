package abi_test

import (
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// entry is hex text, with blanks and bars to be read by people, filled up with zeroes.
func entry(t testing.TB, text string, size int) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "|", "", "\n", "", "\t", "").Replace(text))
	require.NoError(t, err)
	require.LessOrEqual(t, len(b), size)
	return append(b, make([]byte, size-len(b))...)
}

// posted has the bits that are always set.
func posted(w abi.WQE) abi.WQE {
	w.Meta, w.First, w.Last, w.CompReq = true, true, true, true
	return w
}

// The vectors of 64 bytes were written by rdma-core 44 (libefa); those of 128 bytes
// follow from the layout.
var wqes = []struct {
	name string
	wqe  abi.WQE
	wire string
	size int
}{
	{
		name: "send inline with immediate", size: abi.WQELen,
		wqe: posted(abi.WQE{
			HasImm: true, Imm: 0xcafebabe, Inline: true, DestQPN: 7, Length: 8, AH: 0x11, QKey: 0x11223344,
			Data: []byte("inline!\x00"),
		}),
		wire: `0000b01c 07000800 bebafeca 11000000 44332211 00000000 00000000 00000000 | 696e6c696e652100`,
	},
	{
		name: "send of one SGE", size: abi.WQELen,
		wqe: posted(abi.WQE{
			ReqID: 1, DestQPN: 7, Length: 1, AH: 0x11, QKey: 0x11223344,
			SGE: [2]abi.SGE{{Length: 12, LKey: 0x123456, Addr: 0x55a079033000}},
		}),
		wire: `0100801c 07000100 00000000 11000000 44332211 00000000 00000000 00000000 | 0c000000 56341200 00300379 a0550000`,
	},
	{
		name: "RDMA read", size: abi.WQELen,
		wqe: posted(abi.WQE{
			ReqID: 2, Op: abi.WorkRead, DestQPN: 7, Length: 1, AH: 0x11, QKey: 0x11223344,
			Remote: abi.RemoteAddr{Length: 48, RKey: 0xabcdef, Addr: 0x1122334455667788},
			SGE:    [2]abi.SGE{{Length: 48, LKey: 0x123456, Addr: 0x55a079033040}},
		}),
		wire: `0200811c 07000100 00000000 11000000 44332211 00000000 00000000 00000000 |
			30000000 efcdab00 88776655 44332211 30000000 56341200 40300379 a0550000`,
	},
	{
		name: "send of two SGEs on the second lap, id of 64 bits", size: abi.WQELen,
		wqe: posted(abi.WQE{
			ReqID: 0x1122334455667788, Phase: true, DestQPN: 0xfffe, Length: 2, AH: 0xfff, Burst: true, QKey: 1,
			SGE: [2]abi.SGE{{Length: 1, LKey: 1, Addr: 2}, {Length: 3, LKey: 4, Addr: 5}},
		}),
		wire: `8877801d feff0200 00000000 ff0f0100 01000000 00000000 00006655 44332211 |
			01000000 01000000 02000000 00000000 03000000 04000000 05000000 00000000`,
	},
	{
		name: "send inline, wide", size: abi.WideWQELen,
		wqe: posted(abi.WQE{
			Inline: true, DestQPN: 7, Length: 80, QKey: 9, Data: []byte(strings.Repeat("ab", 40)),
		}),
		wire: `0000a01c 07005000 00000000 00000000 09000000 00000000 00000000 00000000 |` + strings.Repeat("6162", 40),
	},
	{
		name: "RDMA write inline with immediate, wide", size: abi.WideWQELen,
		wqe: posted(abi.WQE{
			Op: abi.WorkWrite, HasImm: true, Imm: 5, Inline: true, DestQPN: 7, Length: 3, QKey: 9,
			Remote: abi.RemoteAddr{Length: 3, RKey: 2, Addr: 4}, Data: []byte("abc"),
		}),
		wire: `0000b21c 07000300 05000000 00000000 09000000 00000000 00000000 00000000 |
			03000000 02000000 04000000 00000000 616263`,
	},
}

func TestWQE(t *testing.T) {
	for _, tt := range wqes {
		t.Run(tt.name, func(t *testing.T) {
			wire := entry(t, tt.wire, tt.size)
			assert.Equal(t, wire, tt.wqe.Append(nil, tt.size))
			var w abi.WQE
			require.NoError(t, w.Parse(wire))
			assert.Equal(t, tt.wqe, w)
			for n := range abi.WQELen {
				left := w
				require.ErrorIs(t, left.Parse(wire[:n]), abi.ErrShort)
				assert.Equal(t, w, left, "%d bytes", n)
			}
		})
	}
}

// Each bit of a request that should be 0 is reported, and no other.
func TestWQEReserved(t *testing.T) {
	const all = abi.ReservedCtrl1 | abi.ReservedCtrl2 | abi.ReservedCtrl3 | abi.ReservedMeta | abi.ReservedImm |
		abi.ReservedLKey | abi.ReservedBody
	seen := abi.WQEReserved(0)
	for _, tt := range wqes {
		wire := entry(t, tt.wire, tt.size)
		for i := range tt.size * 8 {
			wire[i/8] ^= 1 << (i % 8)
			var w abi.WQE
			require.NoError(t, w.Parse(wire))
			if w.Op == tt.wqe.Op && w.Length == tt.wqe.Length && w.HasImm == tt.wqe.HasImm && w.Inline == tt.wqe.Inline {
				// A flipped bit is seen either as a field or as reserved.
				r := w.Reserved
				w.Reserved = 0
				if r == 0 {
					assert.NotEqual(t, tt.wqe, w, "%s: bit %d of byte %d", tt.name, i%8, i/8)
				} else {
					assert.Equal(t, tt.wqe, w, "%s: bit %d of byte %d", tt.name, i%8, i/8)
				}
				seen |= r
			}
			wire[i/8] ^= 1 << (i % 8)
		}
	}
	assert.Equal(t, all, seen)
	assert.Equal(t, "ctrl1,ctrl2,ctrl3,meta,immediate,lkey,body", all.String())
	assert.Empty(t, abi.WQEReserved(0).String())
}

// A request that lies about its length gets what there is room for.
func TestWQELies(t *testing.T) {
	for _, tt := range []struct {
		name       string
		w          abi.WQE
		size, data int
	}{
		{"inline", abi.WQE{Inline: true, Length: 0xffff}, abi.WQELen, abi.MaxInline},
		{"inline, wide", abi.WQE{Inline: true, Length: 0xffff}, abi.WideWQELen, abi.MaxInlineWide},
		{"write inline", abi.WQE{Op: abi.WorkWrite, Inline: true, Length: 0xffff}, abi.WideWQELen, abi.MaxInlineWide},
		{"write inline in 64 bytes", abi.WQE{Op: abi.WorkWrite, Inline: true, Length: 8}, abi.WQELen, 0},
		{"SGEs", abi.WQE{Length: 0xffff}, abi.WQELen, 0},
		{"SGEs of a read", abi.WQE{Op: abi.WorkRead, Length: 2}, abi.WQELen, 0},
		{"unknown op", abi.WQE{Op: 9, Inline: true, Length: 3}, abi.WQELen, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.w.Data = make([]byte, 200)
			var w abi.WQE
			require.NoError(t, w.Parse(tt.w.Append(nil, tt.size)))
			assert.Equal(t, tt.w.Length, w.Length)
			assert.Len(t, w.Data, tt.data)
		})
	}
}

func TestDataAllocatesNothing(t *testing.T) {
	wire := entry(t, wqes[1].wire, abi.WQELen)
	buf := make([]byte, 0, abi.WideWQELen)
	var w abi.WQE
	var d abi.RxDesc
	var c abi.CQE
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_ = w.Parse(wire)
		_ = w.Append(buf, abi.WideWQELen)
		_ = d.Parse(wire)
		_ = d.Append(buf)
		_ = c.Parse(wire)
		_ = c.Append(buf, abi.WideCQELen)
	}))
}

func FuzzWQE(f *testing.F) {
	for _, tt := range wqes {
		f.Add(entry(f, tt.wire, tt.size))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var w, again abi.WQE
		if w.Parse(b) != nil {
			require.Less(t, len(b), abi.WQELen)
			return
		}
		size := abi.WQELen
		if len(b) >= abi.WideWQELen {
			size = abi.WideWQELen
		}
		out := w.Append(nil, size)
		require.Len(t, out, size)
		require.NoError(t, again.Parse(out))
		// Of a body that makes no sense only the meta data go round.
		if w.Reserved == 0 && w.Op <= abi.WorkWrite {
			require.Equal(t, b[:size], out)
		}
		if w.Reserved == 0 {
			require.Equal(t, w, again)
		}
	})
}

// Random fields go there and back.
func TestWQERoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	flip := func() bool { return rng.IntN(2) == 0 }
	for range 2000 {
		size := abi.WQELen << rng.IntN(2)
		w := abi.WQE{
			ReqID: rng.Uint64(), Op: abi.WorkOp(rng.IntN(3)), HasImm: true, Imm: rng.Uint32(), Meta: flip(), Phase: flip(),
			First: flip(), Last: flip(), CompReq: flip(), DestQPN: uint16(rng.Uint32()), AH: uint16(rng.Uint32()),
			Burst: flip(), QKey: rng.Uint32(),
		}
		sges := abi.MaxSendSGE
		if w.Op != abi.WorkSend {
			w.Remote = abi.RemoteAddr{Length: rng.Uint32(), RKey: rng.Uint32(), Addr: rng.Uint64()}
			sges = 1
		}
		w.Length = uint16(rng.IntN(sges + 1))
		for i := range w.Length {
			w.SGE[i] = abi.SGE{Length: rng.Uint32(), LKey: rng.Uint32() >> 8, Addr: rng.Uint64()}
		}
		var got abi.WQE
		require.NoError(t, got.Parse(w.Append(nil, size)))
		require.Equal(t, w, got)
	}
}

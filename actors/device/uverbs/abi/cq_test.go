package abi_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// From the layout, by hand; the first descriptor was written by rdma-core 44.
var rxDescs = []struct {
	desc abi.RxDesc
	wire string
}{
	{abi.RxDesc{Addr: 0x55a079034000, Length: 256, LKey: 0x123456, First: true, Last: true}, "00400379 a0550000 0000 0001 563412c0"},
	{abi.RxDesc{Addr: 0x0102030405060708, ReqID: 0x1122, Length: 0xffff, LKey: 0xffffff, First: true}, "08070605 04030201 2211 ffff ffffff40"},
	{abi.RxDesc{Addr: 1, Length: 1, Last: true}, "01000000 00000000 0000 0100 00000080"},
}

func TestRxDesc(t *testing.T) {
	for _, tt := range rxDescs {
		wire := entry(t, tt.wire, abi.RxDescLen)
		assert.Equal(t, wire, tt.desc.Append(nil))
		var d abi.RxDesc
		require.NoError(t, d.Parse(wire))
		assert.Equal(t, tt.desc, d)
		for n := range abi.RxDescLen {
			require.ErrorIs(t, d.Parse(wire[:n]), abi.ErrShort)
			assert.Equal(t, tt.desc, d)
		}
		for i := range 6 {
			wire[15] ^= 1 << i
			require.NoError(t, d.Parse(wire))
			assert.True(t, d.Reserved, "bit %d", 24+i)
			wire[15] ^= 1 << i
		}
	}
}

var cqes = []struct {
	name string
	cqe  abi.CQE
	wire string
	size int
}{
	{
		name: "send", size: abi.CQELen,
		cqe:  abi.CQE{ReqID: 0x1234, Phase: true, Queue: abi.SendQueue, QPN: 7},
		wire: "3412 00 03 0700 0000 0000 0000 00000000",
	},
	{
		name: "read with an error, id of 64 bits", size: abi.WideCQELen,
		cqe:  abi.CQE{ReqID: 0x1122334455667788, Status: 7, Queue: abi.SendQueue, Op: abi.WorkRead, QPN: 0xabcd},
		wire: "8877 07 12 cdab 6655 4433 2211",
	},
	{
		name: "receive", size: abi.CQELen,
		cqe: abi.CQE{
			ReqID: 3, Phase: true, Queue: abi.RecvQueue, QPN: 7, HasImm: true, Imm: 0xcafebabe,
			Length: 8760, AH: 0x11, SrcQPN: 9,
		},
		wire: "0300 00 0d 0700 3822 1100 0900 bebafeca",
	},
	{
		name: "receive of an unknown sender", size: abi.WideCQELen,
		cqe: abi.CQE{
			ReqID: 3, Queue: abi.RecvQueue, QPN: 7, Length: 1, AH: abi.UnknownAH, SrcQPN: 9,
			GID: [16]byte{0xfe, 0x80, 15: 1},
		},
		wire: "0300 00 04 0700 0100 ffff 0900 00000000 fe800000 00000000 00000000 00000001",
	},
	{
		name: "unsolicited write", size: abi.WideCQELen,
		cqe: abi.CQE{
			Phase: true, Queue: abi.RecvQueue, Op: abi.WorkWrite, QPN: 7, HasImm: true, Imm: 1, Unsolicited: true,
			Length: 0x12345678, AH: 2, SrcQPN: 9,
		},
		wire: "0000 00 ad 0700 7856 0200 0900 01000000 3412",
	},
}

func TestCQE(t *testing.T) {
	for _, tt := range cqes {
		t.Run(tt.name, func(t *testing.T) {
			wire := entry(t, tt.wire, tt.size)
			assert.Equal(t, wire, tt.cqe.Append(nil, tt.size))
			var c abi.CQE
			require.NoError(t, c.Parse(wire))
			assert.Equal(t, tt.cqe, c)
			assert.Equal(t, tt.cqe.Phase, abi.CQEWord(binary.LittleEndian.Uint32(wire)).Phase())
			for n := range abi.CQELen {
				require.ErrorIs(t, c.Parse(wire[:n]), abi.ErrShort)
				assert.Equal(t, tt.cqe, c)
			}
		})
	}
}

func FuzzCQE(f *testing.F) {
	for _, tt := range cqes {
		f.Add(entry(f, tt.wire, tt.size))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var c, again abi.CQE
		if c.Parse(b) != nil {
			require.Less(t, len(b), abi.CQELen)
			return
		}
		size := abi.CQELen
		if len(b) >= abi.WideCQELen {
			size = abi.WideCQELen
		}
		out := c.Append(nil, size)
		require.Len(t, out, size)
		require.NoError(t, again.Parse(out))
		require.Equal(t, c, again)
	})
}

func TestDoorbells(t *testing.T) {
	for _, pc := range []uint16{0, 1, 0x8000, 0xffff} {
		got, reserved := abi.ParseWorkDoorbell(abi.WorkDoorbell(pc))
		assert.Equal(t, pc, got)
		assert.False(t, reserved)
	}
	_, reserved := abi.ParseWorkDoorbell(1 << 16)
	assert.True(t, reserved)

	assert.Equal(t, uint32(0xc0001234), abi.CQDoorbell{Consumed: 0x1234, CmdSN: 2, Arm: true}.Word())
	assert.Equal(t, uint32(0x2000ffff), abi.CQDoorbell{Consumed: 0xffff, CmdSN: 5}.Word(), "two bits of the count of events")
	for i := range 32 {
		w := uint32(1) << i
		d := abi.ParseCQDoorbell(w)
		assert.Equal(t, i >= 16 && i < 29, d.Reserved, "bit %d", i)
		if !d.Reserved {
			assert.Equal(t, w, d.Word(), "bit %d", i)
		}
	}
}

package wire

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// rawAddrPacket is an eager message with a raw address header of the given size
// word and address bytes, CQ data and connid behind.
func rawAddrPacket(size uint32, addr []byte) []byte {
	b := appendBase(nil, TypeEagerMsgRTM, FlagMsg|FlagRawAddr|FlagCQData|FlagConnID)
	b = le.AppendUint32(b, 7)
	b = le.AppendUint32(b, size)
	b = append(b, addr...)
	b = le.AppendUint64(b, 0x0badcafe12345678)
	return le.AppendUint32(b, 0xa1b2c3d4)
}

// TestRawAddrHeaderSizes has the sizes of release 1.10 (32), of release 1.13
// (36), and those that a longer raw address would give.
func TestRawAddrHeaderSizes(t *testing.T) {
	for _, size := range []int{32, 33, 36, 40, 64, 1000} {
		addr := bytes.Repeat([]byte{0xee}, size)
		copy(addr, testRaw[:])
		b := rawAddrPacket(uint32(size), addr)

		var got EagerRTM
		n, err := got.Parse(b)
		require.NoError(t, err)
		require.Equal(t, len(b), n)
		require.Equal(t, EagerRTM{MsgID: 7, Options: Options{
			HasRawAddr: true, RawAddr: testRaw,
			HasCQData: true, CQData: 0x0badcafe12345678,
			HasConnID: true, ConnID: 0xa1b2c3d4,
		}}, got)
		connid, ok := ConnIDOf(b)
		require.True(t, ok)
		require.EqualValues(t, 0xa1b2c3d4, connid)

		for i := range b {
			requireParseFails(t, &EagerRTM{}, b[:i:i], ErrShort)
		}
	}
}

func TestRawAddrHeaderLies(t *testing.T) {
	for _, size := range []uint32{0, 1, 16, 31} {
		b := rawAddrPacket(size, testRaw[:])
		requireParseFails(t, &EagerRTM{}, b, ErrLength)
		_, ok := ConnIDOf(b)
		require.False(t, ok)
	}
	for _, size := range []uint32{32 + 8 + 4 + 1, 1 << 16, 1<<31 - 1, 1 << 31, 0xffffffdc, 0xffffffff} {
		b := rawAddrPacket(size, testRaw[:])
		requireParseFails(t, &EagerRTM{}, b, ErrShort)
		_, ok := ConnIDOf(b)
		require.False(t, ok)
	}
}

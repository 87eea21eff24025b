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
		n, err := parse(&got, b)
		require.NoError(t, err)
		require.Equal(t, len(b), n)
		require.Equal(t, EagerRTM{MsgID: 7, Options: Options{
			HasRawAddr: true, RawAddr: testRaw, ShortAddr: size == RawAddrLen,
			HasCQData: true, CQData: 0x0badcafe12345678,
			HasConnID: true, ConnID: 0xa1b2c3d4,
		}}, got)
		connid, ok := connIDOf(b)
		require.True(t, ok)
		require.EqualValues(t, 0xa1b2c3d4, connid)

		for i := range b {
			requireParseFails(t, &EagerRTM{}, b[:i:i], ErrShort)
		}
	}
}

// TestShortAddr writes the header of 36 bytes that releases until 1.12 sent, in a
// packet of every family that has one, and reads it back.
func TestShortAddr(t *testing.T) {
	tested := 0
	for _, c := range codecCases {
		o := optionsOf(c.pkt)
		if o == nil || !o.HasRawAddr {
			continue
		}
		tested++
		long := c.pkt.Append(nil)
		p := dirty(c.pkt)
		_, err := parse(p, long)
		require.NoError(t, err)
		optionsOf(p).ShortAddr = true
		short := p.Append(nil)
		require.Len(t, short, len(long)-RawAddrHdrLen+RawAddrHdrShortLen)

		got := dirty(c.pkt)
		n, err := parse(got, short)
		require.NoError(t, err)
		require.Equal(t, len(short), n)
		require.Equal(t, p, got)
		addr, ok := rawAddrOf(short)
		require.True(t, ok)
		require.Equal(t, testRaw, addr)

		// One size word apart, and 4 bytes of padding less: nothing else moves.
		at := bytes.Index(long, append([]byte{36, 0, 0, 0}, testRaw[:]...))
		require.Positive(t, at)
		want := append(bytes.Clone(long[:at+4+RawAddrLen]), long[at+RawAddrHdrLen:]...)
		want[at] = 32
		require.Equal(t, want, short)
	}
	require.Greater(t, tested, 5)
}

func TestRawAddrHeaderLies(t *testing.T) {
	for _, size := range []uint32{0, 1, 16, 31} {
		b := rawAddrPacket(size, testRaw[:])
		requireParseFails(t, &EagerRTM{}, b, ErrLength)
		_, ok := connIDOf(b)
		require.False(t, ok)
	}
	for _, size := range []uint32{32 + 8 + 4 + 1, 1 << 16, 1<<31 - 1, 1 << 31, 0xffffffdc, 0xffffffff} {
		b := rawAddrPacket(size, testRaw[:])
		requireParseFails(t, &EagerRTM{}, b, ErrShort)
		_, ok := connIDOf(b)
		require.False(t, ok)
	}
}

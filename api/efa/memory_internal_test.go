package efa

import (
	"encoding"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var (
	_ encoding.BinaryMarshaler   = Remote{}
	_ encoding.BinaryAppender    = Remote{}
	_ encoding.BinaryUnmarshaler = (*Remote)(nil)
)

// twoNames is 1 MiB that two devices know.
var twoNames = Remote{n: 1 << 20, names: &[]remoteName{
	{device.GID{1}, 0x0102030405060708, 0x8000000012345678},
	{device.GID{15: 2}, 0x1000, 0x9abcdef0},
}}

func TestRemoteBinary(t *testing.T) {
	p, err := twoNames.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, []byte{
		1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0,
		1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 0x78, 0x56, 0x34, 0x12, 0, 0, 0, 0x80,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0x10, 0, 0, 0, 0, 0, 0, 0xf0, 0xde, 0xbc, 0x9a, 0, 0, 0, 0,
	}, p)
	q, err := twoNames.AppendBinary([]byte("x"))
	require.NoError(t, err)
	require.Equal(t, append([]byte("x"), p...), q)
	var back Remote
	require.NoError(t, back.UnmarshalBinary(p))
	require.Equal(t, twoNames, back)

	bad := func(what string, change func(b []byte) []byte) {
		b := change(append([]byte{}, p...))
		require.ErrorIs(t, back.UnmarshalBinary(b), ErrInvalid, what)
		require.Equal(t, twoNames, back, "left alone")
	}
	for n := range p {
		bad(fmt.Sprint(n, " bytes"), func(b []byte) []byte { return b[:n] })
	}
	bad("longer", func(b []byte) []byte { return append(b, 0) })
	bad("version", func(b []byte) []byte { b[0]++; return b })
	bad("one name", func(b []byte) []byte { b[1] = 1; return b })
	bad("not zero", func(b []byte) []byte { b[7] = 1; return b })
	bad("two of one device", func(b []byte) []byte { copy(b[48:64], b[16:32]); return b })
	bad("around", func(b []byte) []byte { b[15] = 0xff; return b })
	bad("no name", func(b []byte) []byte { b[1] = 0; return b[:16] })
	bad("too many", func([]byte) []byte {
		b := make([]byte, remoteHead+9*remoteEach)
		b[0], b[1] = 1, 9
		for i := range 9 {
			b[remoteHead+i*remoteEach] = byte(i)
		}
		return b
	})

	none, err := Remote{}.MarshalBinary()
	require.NoError(t, err)
	require.NoError(t, back.UnmarshalBinary(none))
	require.Zero(t, back)
	require.LessOrEqual(t, len(p), MaxRemote)
}

func TestRemoteSlice(t *testing.T) {
	r := twoNames
	require.NotContains(t, fmt.Sprintf("%v %+v %s", r, r, r), "5678", "the keys are secret")
	require.NotContains(t, fmt.Sprintf("%#v", r), "12345678")
	for _, x := range [][4]uint64{ // off, n, off and length of what is left
		{0, 5, 0, 5},
		{5, 1 << 20, 5, 1<<20 - 5},
		{1 << 20, 1, 1 << 20, 0},
		{1<<20 + 1, 1, 1 << 20, 0},
		{1 << 63, 1 << 63, 1 << 20, 0},
		{3, ^uint64(0), 3, 1<<20 - 3},
	} {
		s := r.Slice(x[0], x[1]).Slice(0, ^uint64(0))
		require.Equal(t, x[3], s.Len())
		addr, key, err := s.on(device.GID{1}, int(s.Len()))
		require.NoError(t, err)
		require.Equal(t, []uint64{0x0102030405060708 + x[2], 0x8000000012345678}, []uint64{addr, key})
		raw, _ := s.Raw()
		require.Equal(t, addr, raw)
		_, _, err = s.on(device.GID{1}, int(s.Len())+1)
		require.ErrorIs(t, err, ErrInvalid)
		p, err := s.MarshalBinary()
		require.NoError(t, err)
		require.Equal(t, 0x1000+x[2], binary.LittleEndian.Uint64(p[64:]))
	}
}

// TestRemoteOnPath: the name is that of the device which carries to the peer.
func TestRemoteOnPath(t *testing.T) {
	addr, key, err := twoNames.Slice(1, 10).on(device.GID{15: 2}, 10)
	require.NoError(t, err)
	require.Equal(t, []uint64{0x1001, 0x9abcdef0}, []uint64{addr, key})
	_, _, err = twoNames.on(device.GID{9}, 1)
	require.ErrorIs(t, err, ErrInvalid, "a device that does not know the memory")
	addr, _, err = twoNames.on(device.GID{}, 1)
	require.NoError(t, err)
	require.EqualValues(t, 0x0102030405060708, addr)

	addr, key, err = RawRemote(100, 8, 7).Slice(4, 4).on(device.GID{9}, 4)
	require.NoError(t, err)
	require.Equal(t, []uint64{104, 7}, []uint64{addr, key}, "a foreign name holds everywhere")
	_, _, err = RawRemote(^uint64(0)-5, 10, 7).on(device.GID{9}, 0)
	require.ErrorIs(t, err, ErrInvalid, "around the end")
	addr, key, err = Remote{}.on(device.GID{9}, 0)
	require.NoError(t, err)
	require.Zero(t, addr+key)
}

// FuzzRemote: nothing that comes from outside makes a Remote that reaches around the end
// of the address space, and what is accepted says the same again.
func FuzzRemote(f *testing.F) {
	for _, r := range []Remote{{}, twoNames, twoNames.Slice(3, 4), RawRemote(1, 2, 3)} {
		b, err := r.MarshalBinary()
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Remote
		if r.UnmarshalBinary(b) != nil {
			require.Zero(t, r)
			return
		}
		again, err := r.MarshalBinary()
		require.NoError(t, err)
		require.Equal(t, b, again)
		addr, _ := r.Raw()
		require.GreaterOrEqual(t, addr+r.Len(), addr)
	})
}

// TestRoom: memory beyond what is left to this process is refused before it is touched, with what to do.
func TestRoom(t *testing.T) {
	require.NoError(t, room(7<<20, 8<<20))
	err := room(7<<20+1, 8<<20)
	require.ErrorIs(t, err, ErrNoMemory)
	require.ErrorContains(t, err, "raise the limit")
	require.ErrorIs(t, room(1, 0), ErrNoMemory)
}

package mr

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// TestExport: an export has a key, a range and rights of its own, which end with it and
// with its region.
func TestExport(t *testing.T) {
	var table Table
	mem := make([]byte, 0x100)
	const clash = 7 // a device's region has the key of an export
	r := table.Add(&fakeMR{mem: mem, addr: 0x1000, key: clash}, everything)
	resolve := func(key, off, n uint64, want Access) error {
		got, b, err := table.Resolve(0, wire.RMAIOV{Addr: ByOffset | off, Len: n, Key: EmulatedOnly | key}, want)
		if err != nil {
			return err
		}
		require.Same(t, r, got)
		require.Len(t, b, int(n))
		require.Equal(t, int(n), cap(b))
		if n > 0 {
			require.Same(t, &mem[0x40+off], &b[0])
		}
		return nil
	}
	former := func(key uint64) bool {
		return table.RetiredName(0, wire.RMAIOV{Addr: ByOffset, Key: EmulatedOnly | key})
	}
	require.Equal(t, ErrKey, resolve(clash, 0, 1, device.RemoteWrite))
	require.NoError(t, table.Export(r, mem[0x40:0x80], clash, device.RemoteWrite))
	require.ErrorIs(t, table.Export(r, mem, clash, everything), ErrKeyTaken)
	for _, c := range []struct {
		off, n uint64
		err    error
	}{
		{0, 0x40, nil},
		{0, 0, nil},
		{0x40, 0, nil},
		{0x3f, 1, nil},
		{0x40, 1, ErrRange},
		{0x41, 0, ErrRange},
		{1, 0x40, ErrRange},
		{0, math.MaxUint64, ErrRange},
		{math.MaxInt64, 1, ErrRange},
		{math.MaxInt64, math.MaxUint64, ErrRange},
	} {
		if err := resolve(clash, c.off, c.n, device.RemoteWrite); c.err == nil {
			require.NoError(t, err)
		} else {
			require.Equal(t, c.err, err, "%+v", c)
		}
	}
	require.Equal(t, ErrRight, resolve(clash, 0, 1, device.RemoteRead))
	require.Equal(t, ErrKey, resolve(clash+1, 0, 1, device.RemoteWrite))
	whole, _, err := table.Resolve(0, wire.RMAIOV{Addr: 0x1000, Len: 0x100, Key: clash}, device.RemoteRead)
	require.NoError(t, err, "the device's region")
	require.Same(t, r, whole)

	require.False(t, table.Unexport(r, clash+1))
	require.False(t, former(clash))
	require.True(t, table.Unexport(r, clash))
	require.False(t, table.Unexport(r, clash))
	require.True(t, former(clash))
	require.Equal(t, ErrKey, resolve(clash, 0, 1, device.RemoteWrite))
	require.NoError(t, table.Export(r, mem, clash, device.RemoteWrite), "the key is free")
	for key := range uint64(MaxExports - 1) {
		require.NoError(t, table.Export(r, mem, 100+key, device.RemoteWrite))
	}
	require.ErrorIs(t, table.Export(r, mem, 99, device.RemoteWrite), ErrManyExport)
	other := table.Add(&fakeMR{mem: make([]byte, 8), addr: 0x5000, key: 3}, everything)
	other.Retire()
	require.NotNil(t, table.exports.load()[100], "another region's end does not matter")
	r.Retire()
	require.Empty(t, table.exports.load())
	require.True(t, former(100+MaxExports-2))
}

package mr

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// TestResolve is about the edges of regions: of an ordinary one, of one that begins
// at 0, of one that ends with the address space, and of one without bytes.
func TestResolve(t *testing.T) {
	const top = math.MaxUint64
	var table Table
	for _, m := range []*fakeMR{
		{mem: make([]byte, 0x100), addr: 0x7f00_0000_1000, key: 1},
		{mem: make([]byte, 0x100), addr: 0, key: 2},
		{mem: make([]byte, 0x100), addr: top - 0xff, key: 3}, // its last byte is at top
		{mem: nil, addr: 0x5000, key: 4},
	} {
		table.Add(m, everything)
	}
	const a = 0x7f00_0000_1000
	for _, c := range []struct {
		key       uint64
		addr, len uint64
		offset    int // where it begins; refused if negative
	}{
		{1, a, 0x100, 0},
		{1, a, 0, 0},
		{1, a, 1, 0},
		{1, a + 1, 0xff, 1},
		{1, a + 0xff, 1, 0xff},
		{1, a + 0x100, 0, 0x100},
		{1, a, 0x101, -1},
		{1, a + 1, 0x100, -1},
		{1, a + 0x100, 1, -1},
		{1, a + 0x101, 0, -1},
		{1, a - 1, 1, -1},
		{1, a - 1, 0, -1},
		{1, a - 1, 2, -1},
		{1, 0, 0, -1},
		{1, top, 0, -1},
		{1, top, top, -1},
		{1, a, top, -1},
		{1, a + 0x80, top - 0x7f, -1}, // wraps around to the region's beginning
		{1, a + 0x80, top - a, -1},
		{1, 0, a + 1, -1},
		{1, 0x80, 1, -1}, // no offsets
		{2, 0, 0x100, 0},
		{2, 0x100, 0, 0x100},
		{2, 0x100, 1, -1},
		{2, top, 1, -1},
		{2, top, 2, -1}, // wraps around into it
		{2, 0, top, -1},
		{3, top - 0xff, 0x100, 0},
		{3, top, 1, 0xff},
		{3, top, 0, 0xff},
		{3, top, 2, -1},
		{3, top - 0xff, 0x101, -1},
		{3, 0, 0, -1}, // one behind the last byte wraps around
		{3, top - 0x100, 1, -1},
		{4, 0x5000, 0, 0},
		{4, 0x5000, 1, -1},
		{4, 0x5001, 0, -1},
		{4, 0x4fff, 0, -1},
	} {
		t.Run(fmt.Sprintf("%d %#x %#x", c.key, c.addr, c.len), func(t *testing.T) {
			r, p, err := table.Resolve(0, wire.RMAIOV{Addr: c.addr, Len: c.len, Key: c.key}, readable)
			if c.offset < 0 {
				require.Equal(t, ErrRange, err)
				require.Nil(t, r)
				require.Nil(t, p)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.key, r.Key(0))
			require.Equal(t, int(c.len), len(p))
			require.Equal(t, len(p), cap(p))
			if len(p) > 0 {
				require.Same(t, &r.Bytes()[c.offset], &p[0])
			}
		})
	}
}

// TestOrderOfChecks: the key comes first, then the right, then the range. Of a key
// the low 32 bits matter.
func TestOrderOfChecks(t *testing.T) {
	var table Table
	r := table.Add(&fakeMR{mem: make([]byte, 16), addr: 0x1000, key: 0x8000_0001}, device.LocalWrite|device.RemoteWrite)
	good := wire.RMAIOV{Addr: 0x1000, Len: 16, Key: 0x8000_0001}
	for _, c := range []struct {
		name      string
		key, addr uint64
		want      Access
		err       error
	}{
		{"all right", good.Key, good.Addr, device.RemoteWrite, nil},
		{"two rights", good.Key, good.Addr, device.RemoteWrite | device.LocalWrite, nil},
		{"no right", good.Key, good.Addr, 0, nil},
		{"highest bit", good.Key | EmulatedOnly, good.Addr, device.RemoteWrite, nil},
		{"high half", good.Key ^ 1<<32, good.Addr, device.RemoteWrite, ErrKey},
		{"key", 1, good.Addr, device.RemoteWrite, ErrKey},
		{"another key", good.Key + 1, good.Addr, device.RemoteWrite, ErrKey},
		{"right", good.Key, good.Addr, device.RemoteRead, ErrRight},
		{"one of two rights", good.Key, good.Addr, everything, ErrRight},
		{"range", good.Key, 0, device.RemoteWrite, ErrRange},
		{"key, right and range", 1, 0, device.RemoteRead, ErrKey},
		{"right and range", good.Key, 0, device.RemoteRead, ErrRight},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := table.Resolve(0, wire.RMAIOV{Addr: c.addr, Len: 16, Key: c.key}, c.want)
			if c.err != nil {
				require.Equal(t, c.err, err)
				return
			}
			require.NoError(t, err)
			require.Same(t, r, got)
		})
	}
	_, _, err := table.Resolve(0, wire.RMAIOV{Addr: 0, Key: good.Key}, device.RemoteRead)
	require.Equal(t, ErrRight, err, "an entry of no bytes")
}

func TestFind(t *testing.T) {
	var table Table
	mem := make([]byte, 100)
	require.Nil(t, table.Find(mem))
	all := table.Add(&fakeMR{mem: mem[10:90], key: 1}, everything)
	inner := table.Add(&fakeMR{mem: mem[20:30], key: 2}, everything)
	table.Add(&fakeMR{mem: mem[40:40:40], key: 3}, everything)

	require.Same(t, all, table.Find(mem[10:90]))
	require.Same(t, all, table.Find(mem[25:30]), "it reaches further than the inner one")
	require.Same(t, all, table.Find(mem[89:90]))
	require.Same(t, all, table.Find(mem[10:11]))
	require.Same(t, all, table.Find(mem[40:41]))
	for _, p := range [][]byte{mem[9:11], mem[9:10], mem[89:91], mem[90:91], mem[5:95], mem, mem[50:50], {}, nil, make([]byte, 1)} {
		require.Nil(t, table.Find(p))
	}

	all.Retire()
	require.Nil(t, table.Find(mem[10:90]))
	require.Nil(t, table.Find(mem[25:31]))
	require.Same(t, inner, table.Find(mem[25:30]))
	inner.Retire()
	require.Nil(t, table.Find(mem[25:30]))
	require.Equal(t, 1, table.Len())
}

package mr

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// joined is the region of a device that joins several.
type joined struct {
	fakeMR
	parts []device.MR
}

func (m *joined) Parts() []device.MR { return m.parts }

// TestPaths: on each path a region has the name that the path's device gave it, and
// another region may have that name on another path.
func TestPaths(t *testing.T) {
	var table Table
	region := func(at ...*fakeMR) *Region {
		m := &joined{fakeMR: fakeMR{mem: make([]byte, 10)}}
		for _, p := range at {
			m.parts = append(m.parts, p)
		}
		return table.Add(m, everything)
	}
	a := region(&fakeMR{addr: 0x1000, key: 1}, &fakeMR{addr: 0x2000, key: 2, local: true})
	b := region(&fakeMR{addr: 0x3000, key: 2}, &fakeMR{addr: 0x4000, key: 1})
	require.Equal(t, 2, a.Paths())
	require.Equal(t, []bool{true, false}, []bool{a.Remote(0), a.Remote(1)})
	require.Equal(t, 2|EmulatedOnly, a.Key(1))
	require.Equal(t, ^uint32(2), a.LKey(1))
	for _, c := range []struct {
		path uint8
		key  uint64
		want *Region
	}{{0, 1, a}, {1, 2, a}, {0, 2, b}, {1, 1, b}} {
		r, p, err := table.Resolve(c.path, wire.RMAIOV{Addr: c.want.Addr(c.path) + 3, Len: 7, Key: c.key}, readable)
		require.NoError(t, err)
		require.Same(t, c.want, r)
		require.Same(t, &r.Bytes()[3], &p[0])
		_, _, err = table.Resolve(c.path, wire.RMAIOV{Addr: c.want.Addr(1-c.path) + 3, Len: 7, Key: c.key}, readable)
		require.Equal(t, ErrRange, err, "an address of the other path")
	}
	require.False(t, table.Retired(2, 1))
	a.Retire()
	require.Equal(t, 1, table.Len())
	_, _, err := table.Resolve(0, wire.RMAIOV{Addr: 0x1000, Key: 1}, readable)
	require.Equal(t, ErrKey, err)
	require.Equal(t, []bool{true, true, false}, []bool{table.Retired(0, 1), table.Retired(1, 2), table.Retired(1, 1)})
}

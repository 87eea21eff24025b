package mr

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/wire"
)

func TestRegion(t *testing.T) {
	var table Table
	dev := &fakeMR{mem: make([]byte, 10), addr: 0x7000, key: 0xfedcba98}
	r := table.Add(dev, everything)
	require.Equal(t, uint64(0xfedcba98), r.Key(0))
	require.Equal(t, ^uint32(0xfedcba98), r.LKey(0))
	require.Equal(t, uint64(0x7000), r.Addr(0))
	require.Same(t, &dev.mem[0], &r.Bytes()[0])
	require.Len(t, r.Bytes(), 10)
	require.Equal(t, everything, r.Access())
	require.True(t, r.Remote(0))
	require.Same(t, dev, r.Device())

	r = table.Add(&fakeMR{key: 7, local: true}, device.LocalWrite)
	require.Equal(t, uint64(7)|3<<62, r.Key(0))
	require.Equal(t, EmulatedOnly|EmulatedRead, r.Key(0)&^0xffff_ffff)
	require.False(t, r.Remote(0))
	require.Equal(t, 2, table.Len())
}

// TestRetire goes through the life of a region that operations use.
func TestRetire(t *testing.T) {
	var table Table
	dev := &fakeMR{mem: make([]byte, 100), key: 1}
	r := table.Add(dev, everything)
	idle := 0
	r.OnIdle = func() {
		idle++
		require.NoError(t, dev.Close())
	}
	require.True(t, r.Use())
	require.True(t, r.Use())
	require.Equal(t, int64(2), r.Users())
	r.Done()
	require.Equal(t, int64(1), r.Users())

	r.Retire()
	require.Zero(t, idle)
	require.False(t, r.Use())
	require.Nil(t, table.Find(dev.mem))
	_, _, err := table.Resolve(0, wire.RMAIOV{Key: 1}, 0)
	require.Equal(t, ErrKey, err)
	require.Zero(t, table.Len())
	r.Retire()
	require.Equal(t, int64(1), r.Users())
	require.Zero(t, idle)

	r.Done()
	require.Equal(t, 1, idle)
	require.Equal(t, 1, dev.closed)
	require.Zero(t, r.Users())
	r.Done()
	r.Retire()
	require.Zero(t, r.Users())
	require.Equal(t, 1, idle)
	require.False(t, r.Use())
}

func TestRetireUnused(t *testing.T) {
	var table Table
	idle := 0
	r := table.Add(&fakeMR{key: 1}, everything)
	r.OnIdle = func() { idle++ }
	r.Done() // of nothing
	require.Zero(t, r.Users())
	require.True(t, r.Use())
	r.Done()
	require.Zero(t, idle)
	r.Retire()
	require.Equal(t, 1, idle)

	r = table.Add(&fakeMR{key: 1}, everything) // the key may come again
	require.True(t, r.Use())
	r.Retire() // nobody wants to know
	r.Done()
	require.Zero(t, r.Users())
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err Error
		is  []error
		not []error
	}{
		{ErrKey, []error{errno.ErrNoKey, errno.ErrInvalid, ErrKey}, []error{errno.ErrAccess, ErrRight, ErrRange}},
		{ErrRight, []error{errno.ErrAccess, ErrRight}, []error{errno.ErrNoKey, errno.ErrInvalid, ErrKey, ErrRange}},
		{ErrRange, []error{errno.ErrAccess, ErrRange}, []error{errno.ErrNoKey, errno.ErrInvalid, ErrKey, ErrRight}},
	} {
		for _, is := range c.is {
			require.ErrorIs(t, c.err, is)
		}
		for _, not := range c.not {
			require.NotErrorIs(t, c.err, not)
		}
		require.ErrorIs(t, c.err, c.err.Errno())
	}
	require.ErrorIs(t, ErrRange, errno.ErrAccess)
	require.NotErrorIs(t, ErrKey, errors.ErrUnsupported)
	texts := map[string]bool{}
	for e := range ErrRange + 2 {
		texts[e.Error()] = true
	}
	require.Len(t, texts, 4, "three reasons, and none")
}

// TestRetired: the latest keys that named a region are known as such.
func TestRetired(t *testing.T) {
	var table Table
	for key := range uint64(1100) {
		require.False(t, table.Retired(0, key))
		r := table.Add(&fakeMR{mem: make([]byte, 1), key: key}, readable)
		require.False(t, table.Retired(0, key))
		r.Retire()
		r.Retire()
		require.True(t, table.Retired(0, key))
	}
	require.False(t, table.Retired(0, 75))
	require.True(t, table.Retired(0, 76))
}

// TestShare: the user of a region may give it to others after it was retired.
func TestShare(t *testing.T) {
	var table Table
	idle := 0
	r := table.Add(&fakeMR{mem: make([]byte, 1), key: 1}, readable)
	r.OnIdle = func() { idle++ }
	require.True(t, r.Use())
	r.Retire()
	require.False(t, r.Use())
	r.Share()
	require.EqualValues(t, 2, r.Users())
	r.Done()
	require.Zero(t, idle)
	r.Done()
	require.Equal(t, 1, idle)
}

package nic

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/internal/testenv"
)

const anyAccess = device.LocalWrite | device.RemoteRead | device.RemoteWrite

// counted is a table with keys and addresses that are the same in every run.
func counted(limit int) *Regions {
	key := uint64(0)
	return NewRegions(RegionsConfig{Max: limit, Base: 1 << 40, Key: func() uint64 {
		key++
		return key
	}})
}

func add(t testing.TB, rs *Regions, m Memory) *Region {
	t.Helper()
	r, err := rs.Add(m)
	require.NoError(t, err)
	return r
}

// TestRegionsAgainstModel registers, closes and looks up at random, and compares
// with a map.
func TestRegionsAgainstModel(t *testing.T) {
	seeds := uint64(20)
	if testenv.Short() {
		seeds = 3
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 8))
		rs := NewRegions(RegionsConfig{Max: 300, Base: 4096, Key: func() uint64 { return rng.Uint64N(1000) }})
		model := map[uint64]*Region{}
		var order []*Region
		for range 4000 {
			key := rng.Uint64N(1000)
			switch {
			case rng.IntN(3) > 0 && len(order) < 300:
				mr, err := rs.Register(make([]byte, 8), anyAccess)
				if err != nil {
					require.ErrorIs(t, err, device.ErrNoMemory) // of many draws none was free
					continue
				}
				r := mr.(*Region)
				require.NotZero(t, r.RKey())
				require.NotContains(t, model, r.RKey())
				model[r.RKey()] = r
				order = append(order, r)
			case len(order) > 0:
				i := rng.IntN(len(order))
				r := order[i]
				order = append(order[:i], order[i+1:]...)
				delete(model, r.RKey())
				require.NoError(t, r.Close())
				require.ErrorIs(t, r.Close(), device.ErrClosed)
			}
			require.Equal(t, len(model), rs.Len())
			want := model[key]
			addr := uint64(0)
			if want != nil {
				addr = want.Addr()
			}
			got, mem := rs.Hold(key, addr, 8, device.RemoteRead)
			require.True(t, got == want, "key %d", key)
			if got != nil {
				require.Len(t, mem, 8)
				got.Release()
			}
		}
	}
}

// TestHold checks what a request may reach of a region of 100 bytes.
func TestHold(t *testing.T) {
	rs := counted(0)
	mem := make([]byte, 100)
	r := add(t, rs, Memory{Bytes: mem, Access: device.RemoteRead})
	base := r.Addr()
	for _, c := range []struct {
		addr uint64
		n    int
		ok   bool
	}{
		{base, 100, true},
		{base, 0, true},
		{base + 100, 0, true},
		{base + 99, 1, true},
		{base + 40, 60, true},
		{base, 101, false},
		{base + 1, 100, false},
		{base + 100, 1, false},
		{base + 101, 0, false},
		{base - 1, 1, false},
		{base - 1, 2, false},
		{base - 1, 0, false},
		{base, -1, false},
		{^uint64(0), 1, false},
		{^uint64(0), 2, false},
		{^uint64(0) - 99, 100, false},
		{0, 100, false},
		{base + 50, 1<<63 - 1, false},
		{base - 1<<40, 1<<40 + 10, false},
	} {
		got, part := rs.Hold(r.RKey(), c.addr, c.n, device.RemoteRead)
		require.Equal(t, c.ok, got != nil, "%#x + %d", c.addr-base, c.n)
		if c.ok {
			require.Len(t, part, c.n)
			require.Equal(t, c.n, cap(part))
			if c.n > 0 {
				require.Same(t, &mem[c.addr-base], &part[0])
			}
			got.Release()
		}
	}
}

func TestRights(t *testing.T) {
	rs := counted(0)
	all := []device.Access{0, device.LocalWrite, device.RemoteRead, device.RemoteWrite}
	for _, c := range []struct {
		m     Memory
		allow []bool // of all
	}{
		{Memory{Access: 0}, []bool{true, false, false, false}},
		{Memory{Access: device.LocalWrite}, []bool{true, true, false, false}},
		{Memory{Access: device.RemoteRead}, []bool{true, false, true, false}},
		{Memory{Access: device.RemoteWrite}, []bool{true, true, false, true}},
		{Memory{Access: anyAccess}, []bool{true, true, true, true}},
		{Memory{Access: anyAccess, Local: true}, []bool{true, true, false, false}},
	} {
		c.m.Bytes = make([]byte, 10)
		r := add(t, rs, c.m)
		require.Equal(t, !c.m.Local, r.Remote())
		for i, a := range all {
			got, _ := rs.Hold(r.RKey(), r.Addr(), 10, a)
			require.Equal(t, c.allow[i], got != nil, "region %v, access %v", c.m.Access, a)
			if got != nil {
				got.Release()
			}
			local := rs.HoldLocal(r.LKey(), c.m.Bytes[3:7], a)
			require.Equal(t, c.allow[i], local != nil)
			if local != nil {
				local.Release()
			}
		}
	}
}

// TestLongKeys: the whole key names a region to others, its low half to ourselves.
func TestLongKeys(t *testing.T) {
	rs := NewRegions(RegionsConfig{Key: LongKeys()})
	mem := make([]byte, 64)
	for range 100 {
		r := add(t, rs, Memory{Bytes: mem, Access: anyAccess})
		require.Zero(t, r.RKey()>>62)
		held, _ := rs.Hold(r.RKey(), r.Addr(), 64, device.RemoteRead)
		require.Same(t, r, held)
		held.Release()
		if r.RKey()>>32 != 0 {
			held, _ = rs.Hold(uint64(r.LKey()), r.Addr(), 64, device.RemoteRead)
			require.Nil(t, held)
		}
		held = rs.HoldLocal(r.LKey(), mem, device.LocalWrite)
		require.Same(t, r, held)
		held.Release()
		require.True(t, rs.Knows(r.RKey()))
		require.False(t, rs.Knows(r.RKey()^1<<40))
		if r.RKey()&1 == 0 {
			require.NoError(t, r.Close())
			require.True(t, rs.Knows(r.RKey()), "until lately")
		}
	}
}

func TestHoldLocal(t *testing.T) {
	rs := counted(0)
	mem := make([]byte, 100)
	r := add(t, rs, Memory{Bytes: mem[20:80:80]})
	for _, c := range []struct {
		from, to int
		ok       bool
	}{
		{20, 80, true},
		{20, 20, true},
		{79, 80, true},
		{50, 60, true},
		{19, 80, false},
		{20, 81, false},
		{0, 10, false},
		{81, 90, false},
		{0, 100, false},
	} {
		got := rs.HoldLocal(r.LKey(), mem[c.from:c.to], 0)
		require.Equal(t, c.ok, got != nil, "%d to %d", c.from, c.to)
		if got != nil {
			got.Release()
		}
	}
	require.Nil(t, rs.HoldLocal(r.LKey()+1, mem[30:40], 0))
	require.NoError(t, r.Close())
	require.Nil(t, rs.HoldLocal(r.LKey(), mem[30:40], 0))
}

func TestAddresses(t *testing.T) {
	rs := counted(0)
	var last *Region
	for _, n := range []int{1, 4096, 4097, 100} {
		r := add(t, rs, Memory{Bytes: make([]byte, n)})
		require.Zero(t, r.Addr()%4096)
		if last == nil {
			require.Equal(t, uint64(1<<40), r.Addr())
		} else {
			require.GreaterOrEqual(t, r.Addr(), last.Addr()+uint64(len(last.Bytes())))
			require.NoError(t, last.Close())
		}
		last = r
	}
	require.Equal(t, uint64(1<<40+4*4096), last.Addr(), "no address comes twice")

	full := NewRegions(RegionsConfig{Base: ^uint64(0) - 4095})
	_, err := full.Register(make([]byte, 1), 0)
	require.ErrorIs(t, err, device.ErrNoMemory)

	virtual := NewRegions(RegionsConfig{})
	mem := make([]byte, 100)
	r := add(t, virtual, Memory{Bytes: mem})
	require.Equal(t, address(mem), r.Addr())
	r = add(t, virtual, Memory{Bytes: mem, Addr: 77})
	require.Equal(t, uint64(77), r.Addr())
	_, err = virtual.Add(Memory{Bytes: mem, Addr: ^uint64(0) - 50})
	require.ErrorIs(t, err, device.ErrNoMemory)
}

func TestRegionLimits(t *testing.T) {
	rs := counted(2)
	a := add(t, rs, Memory{Bytes: make([]byte, 1)})
	mr, err := rs.Alloc(10, anyAccess)
	require.NoError(t, err)
	_, err = rs.Register(make([]byte, 1), 0)
	require.ErrorIs(t, err, device.ErrNoMemory)
	_, err = rs.Alloc(1, 0)
	require.ErrorIs(t, err, device.ErrNoMemory)
	require.ErrorIs(t, rs.Close(), ErrBusy)
	require.NoError(t, a.Close())
	require.ErrorIs(t, rs.Close(), ErrBusy)
	require.NoError(t, mr.Close())
	require.NoError(t, rs.Close())
	_, err = rs.Register(make([]byte, 1), 0)
	require.ErrorIs(t, err, device.ErrClosed)

	for _, key := range []uint64{0, 5} { // a source without a free key
		poor := NewRegions(RegionsConfig{Key: func() uint64 { return key }})
		_, _ = poor.Register(make([]byte, 1), 0)
		_, err := poor.Register(make([]byte, 1), 0)
		require.ErrorIs(t, err, device.ErrNoMemory)
	}
	_, err = counted(0).Alloc(1<<62, 0)
	require.ErrorIs(t, err, device.ErrNoMemory)
	for _, m := range []Memory{{}, {Bytes: make([]byte, 1), Access: 0x40}} {
		_, err = counted(0).Add(m)
		require.ErrorIs(t, err, device.ErrNotSupported)
	}
}

// TestRelease: memory goes back once, by the first Close, with its error.
func TestRelease(t *testing.T) {
	rs := counted(0)
	calls, failed := 0, errors.New("munmap")
	r := add(t, rs, Memory{Bytes: make([]byte, 1), Release: func() error {
		calls++
		require.Equal(t, 1, rs.Len(), "open until the memory is back")
		return failed
	}})
	require.ErrorIs(t, r.Close(), failed)
	require.ErrorIs(t, r.Close(), device.ErrClosed)
	require.Equal(t, 1, calls)
	require.Zero(t, rs.Len())
}

// TestCloseWaits: Close returns when the last hold was released, and there is no
// new hold after Close has begun.
func TestCloseWaits(t *testing.T) {
	rs := NewRegions(RegionsConfig{})
	rounds := 200
	if testenv.Short() {
		rounds = 40 // on one processor each takes several turns of Go's scheduler
	}
	for range rounds {
		mem := bytes.Repeat([]byte{1}, 64)
		var free atomic.Bool
		r := add(t, rs, Memory{Bytes: mem, Access: device.RemoteRead, Release: func() error {
			free.Store(true)
			clear(mem) // a reader that is still at it would be a race
			return nil
		}})
		key, addr := r.RKey(), r.Addr()
		var wait sync.WaitGroup
		var begun atomic.Int32
		for range 3 {
			wait.Go(func() {
				for {
					got, part := rs.Hold(key, addr, 64, device.RemoteRead)
					if got == nil {
						return
					}
					begun.Add(1)
					sum := byte(0)
					for _, b := range part {
						sum += b
					}
					if sum != 64 || free.Load() {
						t.Error("the memory went away")
					}
					got.Release()
				}
			})
		}
		for begun.Load() == 0 {
			runtime.Gosched()
		}
		require.NoError(t, r.Close())
		require.True(t, free.Load())
		wait.Wait()
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	rs := NewRegions(RegionsConfig{})
	var r *Region
	for range 100 {
		r = add(t, rs, Memory{Bytes: make([]byte, 100), Access: anyAccess})
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		got, _ := rs.Hold(r.RKey(), r.Addr(), 100, device.RemoteWrite)
		got.Release()
		rs.HoldLocal(r.LKey(), r.Bytes(), 0).Release()
	}))
}

func BenchmarkHold(b *testing.B) {
	rs := NewRegions(RegionsConfig{})
	var r *Region
	for range 1000 {
		r = add(b, rs, Memory{Bytes: make([]byte, 100), Access: anyAccess})
	}
	b.ReportAllocs()
	for b.Loop() {
		got, _ := rs.Hold(r.RKey(), r.Addr(), 100, device.RemoteWrite)
		got.Release()
	}
}

// TestForeignRegion: memory of another process has a key and a life like any other,
// and no access reaches its bytes here, not even one of zero bytes.
func TestForeignRegion(t *testing.T) {
	rs := counted(3)
	r := add(t, rs, Memory{Foreign: 100, Addr: 0x7000, Access: device.RemoteRead | device.RemoteWrite})
	require.Nil(t, r.Bytes())
	require.True(t, r.Remote())
	require.Equal(t, uint64(0x7000), r.Addr())
	require.NotZero(t, r.RKey())
	require.Equal(t, anyAccess, r.Access())
	for _, n := range []int{0, 1, 100} {
		for _, addr := range []uint64{0, 0x7000, 0x7000 + 100} {
			got, mem := rs.Hold(r.RKey(), addr, n, device.RemoteRead)
			require.Nil(t, got)
			require.Nil(t, mem)
		}
	}
	for _, b := range [][]byte{nil, {}, make([]byte, 1)} {
		require.Nil(t, rs.HoldLocal(r.LKey(), b, 0))
		require.Nil(t, rs.HoldLocal(r.LKey(), b, device.LocalWrite))
	}
	require.ErrorIs(t, rs.Close(), ErrBusy)

	other := add(t, rs, Memory{Foreign: 1, Addr: 0x7000, Local: true})
	require.NotEqual(t, r.RKey(), other.RKey(), "memory may be registered again")
	require.False(t, other.Remote())
	require.NoError(t, other.Close())

	gave := 0
	last := add(t, rs, Memory{Foreign: 1, Addr: ^uint64(0) - 1, Release: func() error { gave++; return nil }})
	require.NoError(t, last.Close())
	require.Equal(t, 1, gave)
	require.ErrorIs(t, last.Close(), device.ErrClosed)

	for _, m := range []Memory{
		{Foreign: -1, Addr: 1},
		{Foreign: 1},
		{Foreign: 1, Addr: 1, Bytes: make([]byte, 1)},
		{Addr: 0x7000},
	} {
		_, err := rs.Add(m)
		require.ErrorIs(t, err, device.ErrNotSupported)
	}
	_, err := rs.Add(Memory{Foreign: 2, Addr: ^uint64(0) - 1})
	require.ErrorIs(t, err, device.ErrNoMemory)
	require.NoError(t, r.Close())
	require.NoError(t, rs.Close())
}

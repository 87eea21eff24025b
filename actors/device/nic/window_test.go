package nic

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

// TestReturnWaits: a window's bytes are the owner's when Return is back, although others read
// by its key at that moment; the race detector sees it if not.
func TestReturnWaits(t *testing.T) {
	rs := NewRegions(RegionsConfig{})
	mem := make([]byte, 64)
	r := add(t, rs, Memory{Bytes: mem})
	for round := range 2000 {
		for i := range mem {
			mem[i] = byte(round)
		}
		key, err := rs.Lend(r.LKey(), mem[8:16])
		require.NoError(t, err)
		var wait sync.WaitGroup
		for range 2 {
			wait.Go(func() {
				for {
					got, part := rs.Hold(key, r.Addr()+8, 8, device.RemoteRead)
					if got == nil {
						return
					}
					for _, b := range part {
						if b != byte(round) {
							t.Errorf("%d in round %d", b, round)
						}
					}
					got.Release()
				}
			})
		}
		rs.Return(key)
		clear(mem)
		wait.Wait()
	}
	require.NoError(t, r.Close())
	require.NoError(t, rs.Close())
}

func TestLendDoesNotAllocate(t *testing.T) {
	rs := NewRegions(RegionsConfig{})
	r := add(t, rs, Memory{Bytes: make([]byte, 100)})
	require.Zero(t, testing.AllocsPerRun(100, func() {
		key, err := rs.Lend(r.LKey(), r.Bytes()[10:20])
		got, _ := rs.Hold(key, r.Addr()+10, 10, device.RemoteRead)
		if err != nil || got == nil {
			t.Error(err)
			return
		}
		got.Release()
		rs.Return(key)
	}))
}

// TestRelendWaits: the memory that was lent first is the owner's when Relend is back, although
// others read by its key at that moment; the race detector sees it if not.
func TestRelendWaits(t *testing.T) {
	rs := NewRegions(RegionsConfig{})
	mem, other := make([]byte, 64), make([]byte, 64)
	for round := range 2000 {
		for i := range mem {
			mem[i], other[i] = byte(round), byte(round)
		}
		key, addr, err := rs.LendPlain(Source{}, mem)
		require.NoError(t, err)
		var wait sync.WaitGroup
		for range 2 {
			wait.Go(func() {
				for {
					got, part := rs.Hold(key, addr+8, 8, device.RemoteRead)
					if got == nil {
						return
					}
					for _, b := range part {
						if b != byte(round) {
							t.Errorf("%d in round %d", b, round)
						}
					}
					got.Release()
				}
			})
		}
		require.NoError(t, rs.Relend(key, other))
		clear(mem)
		rs.Return(key)
		clear(other)
		wait.Wait()
	}
	require.NoError(t, rs.Close())
}

func TestLendPlainDoesNotAllocate(t *testing.T) {
	rs := NewRegions(RegionsConfig{})
	mem := make([]byte, 100)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		key, addr, err := rs.LendPlain(Source{}, mem)
		got, _ := rs.Hold(key, addr+10, 10, device.RemoteRead)
		if err != nil || got == nil {
			t.Error(err)
			return
		}
		got.Release()
		if rs.Relend(key, mem) != nil {
			t.Error("not lent again")
		}
		rs.Return(key)
	}))
}

func BenchmarkLend(b *testing.B) {
	rs := NewRegions(RegionsConfig{})
	r := add(b, rs, Memory{Bytes: make([]byte, 100)})
	b.ReportAllocs()
	for b.Loop() {
		key, err := rs.Lend(r.LKey(), r.Bytes())
		if err != nil {
			b.Fatal(err)
		}
		rs.Return(key)
	}
}

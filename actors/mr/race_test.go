package mr

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/wire"
)

// TestConcurrent lets shards use regions while others add and retire them. The
// memory of each region says whether it is still there: the owner writes to it when
// it is idle, which the race detector would not forgive if anybody read it.
func TestConcurrent(t *testing.T) {
	const (
		owners, shards = 3, 3
		rounds, size   = 300, 64
	)
	var (
		table    Table
		idle     atomic.Int64
		used     atomic.Int64
		finished atomic.Bool
		wg       sync.WaitGroup
		readers  sync.WaitGroup
	)
	fixed := table.Add(&fakeMR{mem: make([]byte, size), addr: 1, key: 1000}, everything)
	for o := range owners {
		wg.Go(func() {
			for i := range rounds {
				mem := make([]byte, size)
				r := table.Add(&fakeMR{mem: mem, addr: uint64(o) * 0x1000, key: uint64(o)}, everything)
				r.OnIdle = func() {
					idle.Add(1)
					clear(mem)
					mem[0] = 0xff
				}
				if table.Find(mem[i%size:]) != r {
					t.Error("my own region was not found")
				}
				if i%2 == 0 {
					r.Retire()
					continue
				}
				var twice sync.WaitGroup
				twice.Go(r.Retire)
				twice.Go(r.Retire)
				twice.Wait()
			}
		})
	}
	for s := range shards {
		readers.Go(func() {
			for i := s; !finished.Load(); i++ {
				iov := wire.RMAIOV{Addr: uint64(i%owners) * 0x1000, Len: size, Key: uint64(i % owners)}
				r, p, err := table.Resolve(0, iov, readable)
				if err != nil || !r.Use() {
					continue
				}
				used.Add(1)
				if p[0] != 0 {
					t.Error("used after it was idle")
				}
				if table.Find(fixed.Bytes()) != fixed {
					t.Error("a region that stays was not found")
				}
				r.Done()
			}
		})
	}
	wg.Wait()
	// A reader must have met a region at least once; this one stays until then.
	last := table.Add(&fakeMR{mem: make([]byte, size), addr: 0, key: 0}, everything)
	for before := used.Load(); used.Load() == before; {
	}
	finished.Store(true)
	readers.Wait()
	last.Retire()
	require.Equal(t, int64(owners*rounds), idle.Load())
	require.Equal(t, 1, table.Len())
	require.Zero(t, fixed.Users())
}

// TestNoAllocation is about what shards call, found or not.
func TestNoAllocation(t *testing.T) {
	var table Table
	mem := make([]byte, 100)
	for i := range 50 {
		table.Add(&fakeMR{mem: mem[i:], addr: 0x1000, key: uint64(i)}, readable)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for key := range uint64(60) {
			for _, want := range []Access{readable, everything} {
				for addr := range uint64(3) {
					r, _, err := table.Resolve(0, wire.RMAIOV{Addr: 0xfff + addr, Len: 10, Key: key}, want)
					if err == nil && r.Use() {
						r.Done()
					}
				}
			}
		}
		table.Find(mem[10:20])
		table.Find(make([]byte, 4))
	}))
}

func BenchmarkTable(b *testing.B) {
	for _, n := range []int{1, 1000} {
		var table Table
		mem := make([]byte, 64*n)
		for i := range n {
			table.Add(&fakeMR{mem: mem[64*i:][:64], addr: uint64(i) << 16, key: uint64(i) * 0x9e3779b9}, everything)
		}
		iov := wire.RMAIOV{Addr: uint64(n/2)<<16 + 8, Len: 8, Key: uint64(n/2) * 0x9e3779b9}
		b.Run(fmt.Sprintf("op=resolve/regions=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := table.Resolve(0, iov, readable); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("op=find/regions=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if table.Find(mem[64*(n/2)+1:][:8]) == nil {
					b.Fatal("not found")
				}
			}
		})
	}
}

//go:build linux

package shard_test

import (
	"runtime"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/runtime/shard"
)

// TestPinnedStays: over a million messages, with sleeps between, a pinned shard
// stays on one thread, which stays on one CPU.
func TestPinnedStays(t *testing.T) {
	s := newShard(t, shard.Alone(shard.Config{Mode: shard.Pinned}))
	const bursts, each = 20, 50000
	tids := map[int]int{}
	cpus := map[int]int{}
	count := 0
	var ref shard.Ref
	ref = spawn(t, s, "", func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			m, ok := ctx.Message().(*relay)
			if !ok {
				return
			}
			count++
			if count%1000 == 0 {
				tids[unix.Gettid()]++
				var set unix.CPUSet
				if err := unix.SchedGetaffinity(0, &set); err != nil {
					t.Error(err)
				}
				cpus[set.Count()]++
			}
			if m.hops--; m.hops > 0 {
				s.Tell(ref, m)
				return
			}
			m.sig.Set()
		})
	})
	for range bursts {
		m := &relay{hops: each}
		s.Post(ref, m)
		require.NoError(t, s.Wait(soon(t), &m.sig))
		parked(t, s)
	}
	require.Equal(t, bursts*each, count)
	require.Len(t, tids, 1)
	require.Equal(t, map[int]int{1: bursts * each / 1000}, cpus)
	require.NotContains(t, tids, unix.Gettid())
}

func TestPinCPU(t *testing.T) {
	_, err := shard.New(shard.Config{Mode: shard.Pinned, PinCPU: []int{1023}})
	require.ErrorContains(t, err, "1023")

	var mine unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(unix.Getpid(), &mine))
	want := 0
	for !mine.IsSet(want) {
		want++
	}
	s := newShard(t, shard.Alone(shard.Config{Mode: shard.Pinned, PinCPU: []int{want}}))
	var got unix.CPUSet
	p := &ping{}
	ref := spawn(t, s, "", setter())
	s.Post(ref, &note{do: func(actor.Context) {
		if err := unix.SchedGetaffinity(0, &got); err != nil {
			t.Error(err)
		}
		p.sig.Set()
	}})
	require.NoError(t, s.Wait(soon(t), &p.sig))
	require.Equal(t, 1, got.Count())
	require.True(t, got.IsSet(want))
}

// TestPinnedLent: where processors are few, goroutines that wait have a pinned shard between
// them, and its thread has it when none waits.
func TestPinnedLent(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	s := newShard(t, shard.Config{Mode: shard.Pinned})
	require.Equal(t, shard.Pinned, s.Mode())
	require.Contains(t, s.ModeReason(), "lent")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, me, here, there := soon(t), unix.Gettid(), 0, make(chan int)
	ref := spawn(t, s, "", setter())
	for here == 0 { // the thread may be the first
		require.NoError(t, ctx.Err())
		p := &ping{}
		s.Post(ref, &note{do: func(actor.Context) {
			if unix.Gettid() == me {
				here++
			}
			p.sig.Set()
		}})
		require.NoError(t, s.Wait(ctx, &p.sig))
	}
	for range 3 {
		s.Post(ref, &note{do: func(actor.Context) { there <- unix.Gettid() }})
		require.NotEqual(t, me, <-there)
	}
	require.NoError(t, ctx.Err())
}

//go:build linux

package shm

import (
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

func countMappings(t testing.TB) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	n := 0
	for _, c := range b {
		if c == '\n' {
			n++
		}
	}
	return n
}

func countFiles(t testing.TB) int {
	t.Helper()
	es, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(es)
}

// settles waits until there are no more than this many: a watcher at work holds a
// few, but none for long.
func settles(t testing.TB, most int, count func(testing.TB) int, what string) {
	t.Helper()
	for from := clock.System.Now(); ; runtime.Gosched() {
		n := count(t)
		if n <= most {
			return
		}
		require.Less(t, clock.System.Now().Sub(from), 30*time.Second, "%d %s, not %d", n, what, most)
	}
}

// Regions come and go; descriptors, mappings and addresses do not add up.
func TestRegionLeaks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	c := newCouple(t, 100, remoteAll)
	local := make([]byte, 64)
	var live []device.MR
	turn := func(n int) {
		for range n {
			mr, err := c.devB().Alloc(64+rng.IntN(200_000), []device.Access{remoteAll, device.RemoteRead}[rng.IntN(2)])
			require.NoError(t, err)
			require.Zero(t, mr.Bytes()[0])
			mr.Bytes()[0] = 1
			c.mr = mr
			c.ends(c.wr(device.WRRead, local, 0), device.StatusOK)
			if live = append(live, mr); len(live) > 5 {
				i := rng.IntN(len(live))
				require.NoError(t, live[i].Close())
				live = append(live[:i], live[i+1:]...)
			}
		}
		c.devA().watch.look()
	}
	turn(1000)
	files, mappings := countFiles(t), countMappings(t)
	turn(2000)
	settles(t, files+2, countFiles, "files; the runtime may open one")
	settles(t, mappings+100, countMappings, "mappings")
	const classes = 7 // of lengths that occur
	require.LessOrEqual(t, len(c.devB().ranges.all), classes*(reuseAfter+7))
	for _, mr := range live {
		require.NoError(t, mr.Close())
	}
}

// A range rests before it is used again.
func TestRanges(t *testing.T) {
	var r ranges
	first, err := r.get(5000)
	require.NoError(t, err)
	require.Len(t, first, 8192)
	require.NoError(t, blank(first))
	first[0] = 1
	r.put(first)
	for range reuseAfter {
		mem, err := r.get(8192)
		require.NoError(t, err)
		require.NotSame(t, &first[0], &mem[0])
		defer r.put(mem)
	}
	var rest [][]byte
	for range reuseAfter {
		mem, err := r.get(4097)
		require.NoError(t, err)
		rest = append(rest, mem)
	}
	for _, mem := range rest {
		r.put(mem)
	}
	again, err := r.get(8192)
	require.NoError(t, err)
	require.Same(t, &first[0], &again[0])
	require.NoError(t, r.close())
	_, err = r.get(1)
	require.ErrorIs(t, err, device.ErrClosed)
	require.ErrorIs(t, unix.Msync(unsafe.Slice(&again[0], pageBytes), unix.MS_ASYNC), unix.ENOMEM, "unmapped")
}

// More regions than may be mapped at one time: those least used go.
func TestViewsBounded(t *testing.T) {
	c := newCouple(t, 64, remoteAll)
	local := make([]byte, 1)
	first := c.mr
	var all []device.MR
	for i := range maxMappings + 10 {
		c.mr = c.alloc(1, remoteAll)
		c.mr.Bytes()[0] = byte(i)
		c.ends(c.wr(device.WRRead, local, 0), device.StatusOK)
		require.Equal(t, byte(i), local[0])
		all = append(all, c.mr)
		c.mr = first // always the latest
		c.ends(c.wr(device.WRRead, local, 0), device.StatusOK)
	}
	vs := c.devA().mappings
	require.Equal(t, maxMappings, vs.size())
	require.Contains(t, *vs.byKey.Load(), first.RKey())
	require.NotContains(t, *vs.byKey.Load(), all[0].RKey())
	c.mr = all[0]
	c.ends(c.wr(device.WRRead, local, 0), device.StatusOK)
	require.Equal(t, byte(0), local[0])
}

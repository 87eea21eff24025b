//go:build linux

package efa_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/testenv"
)

// witness is a device that notes on which thread and CPU its queue pairs are
// polled.
type witness struct {
	device.Device
	polls   atomic.Uint64
	seen    atomic.Uint64
	tids    atomic.Pointer[map[int]bool]
	cpus    atomic.Pointer[map[int]bool]
	allowed atomic.Int64 // CPUs that the thread may run on
}

type witnessQP struct {
	device.QP
	w *witness
}

func (w *witness) OpenQP(c device.QPConfig) (device.QP, error) {
	qp, err := w.Device.OpenQP(c)
	return &witnessQP{qp, w}, err
}

func (q *witnessQP) Poll(c []device.Completion) int {
	n := q.QP.Poll(c)
	q.w.polls.Add(1)
	if n > 0 && q.w.seen.Add(uint64(n))%256 < uint64(n) {
		q.w.look()
	}
	return n
}

// look is called by one thread at a time: the owner of the shard.
func (w *witness) look() {
	add := func(p *atomic.Pointer[map[int]bool], v int) {
		m := map[int]bool{v: true}
		if old := p.Load(); old != nil {
			for k := range *old {
				m[k] = true
			}
		}
		p.Store(&m)
	}
	add(&w.tids, unix.Gettid())
	var cpu, node uint32
	if _, _, e := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), uintptr(unsafe.Pointer(&node)), 0); e == 0 {
		add(&w.cpus, int(cpu))
	}
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) == nil {
		w.allowed.Store(int64(set.Count()))
	}
}

// TestPinned: over a million messages the pinned loop stays on one OS thread and
// one CPU, unless the shard is lent (shard.TestPinnedStays), and a second after the traffic it uses next to no CPU.
func TestPinned(t *testing.T) {
	messages := 1_000_000
	if raceEnabled || testenv.Short() {
		messages = 50_000
	}
	f := newFabric(t, sim.Config{InOrder: true})
	w := &witness{Device: newDevice(t, f)}
	fab, err := efa.Open(efa.Config{Device: w})
	require.NoError(t, err)
	dom, err := fab.OpenDomain(efa.DomainConfig{Progress: efa.ProgressPinned})
	require.NoError(t, err)
	require.Equal(t, efa.ProgressPinned, dom.Progress())
	q, err := dom.NewQueue(1024)
	require.NoError(t, err)
	av := dom.NewAddressVector()
	ep, err := dom.NewEndpoint(efa.EndpointConfig{AV: av, SendQueue: q, RecvQueue: q})
	require.NoError(t, err)
	require.NoError(t, ep.Enable(context.Background()))
	self, err := av.Insert(ep.Address())
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	src, dst := make([]byte, 8), make([]byte, 8)
	var cs [256]efa.Completion
	for done, posted := 0, 0; done < 2*messages; {
		for posted < messages && 2*posted-done < 500 {
			_, err := ep.PostRecv(&efa.RecvReq{Buf: dst})
			require.NoError(t, err)
			_, err = ep.PostSend(&efa.SendReq{To: self, Buf: src})
			require.NoError(t, err)
			posted++
		}
		n, err := q.Read(ctx, cs[:])
		require.NoError(t, err)
		done += n
	}
	if !strings.Contains(dom.ProgressReason(), "lent") { // else those who wait poll, too
		require.Len(t, *w.tids.Load(), 1, "threads that polled")
		require.Len(t, *w.cpus.Load(), 1, "CPUs that polled")
		require.EqualValues(t, 1, w.allowed.Load(), "CPUs that the thread may use")
	}

	// The loop parks soon; from one second on it is idle.
	if !testenv.Short() { // it takes seconds of a machine that does nothing else
		w.idles(t)
	}
	require.NoError(t, ep.Close())
	require.NoError(t, dom.Close())
	require.NoError(t, fab.Close())
}

// idles checks that the loop that polls costs next to nothing when there is nothing to do.
func (w *witness) idles(t *testing.T) {
	idle := func(d time.Duration) {
		c, stop := context.WithTimeout(context.Background(), d)
		defer stop()
		<-c.Done()
	}
	idle(time.Second)
	var used time.Duration
	for range 5 { // in one second of these Go's runtime may do something else
		polls, before := w.polls.Load(), cpuTime(t)
		idle(time.Second)
		used = cpuTime(t) - before
		t.Logf("%v of CPU and %d polls in an idle second", used, w.polls.Load()-polls)
		if used < 10*time.Millisecond {
			break
		}
	}
	require.Less(t, used, 10*time.Millisecond, "an idle second must use less than 1%% of a CPU")
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

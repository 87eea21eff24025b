package efa_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

func init() { idleRole = idleChild }

// switches counts how often threads of a process have gone to sleep: all, and those but for the second, which
// is the monitor of Go's runtime. That one naps for 20 us at a time while others run.
func switches(t *testing.T, pid int) (all, work int) {
	t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	require.NoError(t, err)
	slices.SortFunc(threads, func(a, b os.DirEntry) int { // by number
		return cmp.Or(cmp.Compare(len(a.Name()), len(b.Name())), cmp.Compare(a.Name(), b.Name()))
	})
	for i, tid := range threads {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/status", pid, tid.Name()))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		require.NoError(t, err)
		_, rest, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
		var k int
		_, err = fmt.Sscan(rest, &k)
		require.NoError(t, err)
		if all += k; i != 1 {
			work += k
		}
	}
	return all, work
}

// idleChild exchanges a message with each of its peers, and waits for another then.
func idleChild(dir string) error {
	ctx := context.Background()
	ep, _, err := childOf(dir, efa.DomainConfig{})
	if err != nil {
		return err
	}
	b := make([]byte, 8)
	for {
		m, err := ep.Recv(ctx, b)
		if err != nil {
			return err
		}
		if err := ep.Reply(ctx, m, b); err != nil {
			return err
		}
	}
}

// TestIdleProcess: nothing wakes a process over shm that waits for a message, however many peers it has. With looks at
// their locks its threads slept 34 times a second. Over tcp the ticks of its connections wake it, and pings and pongs
// do. When a ping came soon after a tick, the next sleep was a system call, and Go's monitor napped 60 times (TestGapGoesOn).
func TestIdleProcess(t *testing.T) {
	testenv.Long(t, "a process does nothing for real seconds")
	for _, c := range []struct {
		name  string
		peers int
		look  time.Duration
		most  int // sleeps in that time
		tcp   bool
	}{
		{"1", 1, time.Second, 2, false},
		{"16", 16, time.Second, 2, false},
		{"tcp", 1, 4 * time.Second, 30, true}, // a round of ticks and a ping takes 3.75 s
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := "tcp"
			if !c.tcp {
				dir = t.TempDir()
				require.NoError(t, os.Chmod(dir, 0o700))
			}
			var all []*side
			for range c.peers {
				all = append(all, open(t, meetAt(t, dir), efa.DomainConfig{}))
			}
			cmd, addr := startChild(t, dir, all[0].ep.Address(), idleEnv+"=1")
			defer func() {
				require.NoError(t, cmd.Process.Kill())
				_ = cmd.Wait() // it was killed
			}()
			for _, s := range all {
				peer, err := s.av.Insert(addr)
				require.NoError(t, err)
				require.NoError(t, s.ep.Send(testContext(t), peer, make([]byte, 8)))
				_, err = s.ep.Recv(testContext(t), make([]byte, 8))
				require.NoError(t, err)
			}
			least := math.MaxInt
			for range 4 { // in the first it goes to sleep, and Go's runtime may do some work in any
				before, _ := switches(t, cmd.Process.Pid)
				<-clock.NewTimer(c.look).C
				after, _ := switches(t, cmd.Process.Pid)
				least = min(least, after-before)
			}
			t.Logf("%d peers: %d sleeps in %v", c.peers, least, c.look)
			require.LessOrEqual(t, least, c.most)
		})
	}
}

// TestSwitchesOfThinker counts how often the two processes of requests go to sleep, where the client computes 500 us before
// each, so that the server sleeps every time. With the helper between the bell and the waiter the server's threads slept 10
// times a request. A Unix socket's server sleeps 3.3 times, in the same poller.
func TestSwitchesOfThinker(t *testing.T) {
	testenv.Long(t, "a client computes for real time")
	if raceEnabled {
		t.Skip("the race detector has threads of its own")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	me := open(t, meetAt(t, dir), efa.DomainConfig{})
	cmd, addr := startChild(t, dir, me.ep.Address(), idleEnv+"=1")
	defer func() {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
	}()
	peer, err := me.av.Insert(addr)
	require.NoError(t, err)
	ctx, b := context.Background(), make([]byte, 8)
	ask := func() {
		require.NoError(t, me.ep.Send(ctx, peer, b))
		_, err := me.ep.Recv(ctx, b)
		require.NoError(t, err)
	}
	for range 100 {
		ask()
	}
	const requests = 1000
	_, server := switches(t, cmd.Process.Pid)
	_, client := switches(t, os.Getpid())
	for range requests {
		for began := clock.System.Now(); clock.System.Now().Sub(began) < 500*time.Microsecond; {
		}
		ask()
	}
	_, serverAfter := switches(t, cmd.Process.Pid)
	_, clientAfter := switches(t, os.Getpid())
	s, c := float64(serverAfter-server)/requests, float64(clientAfter-client)/requests
	t.Logf("sleeps a request: server %.2f, client %.2f", s, c)
	require.LessOrEqual(t, s, 4.0)
	require.LessOrEqual(t, c, 3.5)
}

// timersSet counts the timer descriptors of this process that are set: each wakes it, once
// or again and again.
func timersSet(t *testing.T) (set, all int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, fd := range fds {
		if what, _ := os.Readlink("/proc/self/fd/" + fd.Name()); what != "anon_inode:[timerfd]" {
			continue
		}
		info, err := os.ReadFile("/proc/self/fdinfo/" + fd.Name())
		require.NoError(t, err)
		all++
		if !strings.Contains(string(info), "it_value: (0, 0)") || !strings.Contains(string(info), "it_interval: (0, 0)") {
			set++
		}
	}
	return set, all
}

// TestIdleEndpointsSleep: endpoints on shm that have nothing to do set no timer, whether
// each has its own device or all have one.
func TestIdleEndpointsSleep(t *testing.T) {
	const endpoints = 24
	dir := filepath.Join(t.TempDir(), "shm")
	dev := func() efa.Device {
		d, err := shm.Open(shm.Config{Dir: dir})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		return d
	}
	for range endpoints {
		open(t, dev(), efa.DomainConfig{})
	}
	one := open(t, dev(), efa.DomainConfig{})
	for range endpoints {
		ep, err := one.dom.NewEndpoint(efa.EndpointConfig{AV: one.av})
		require.NoError(t, err)
		require.NoError(t, ep.Enable(t.Context()))
		t.Cleanup(func() { require.NoError(t, ep.Close()) })
	}
	_, all := timersSet(t)
	require.GreaterOrEqual(t, all, 2*endpoints)
	require.Eventually(t, func() bool { set, _ := timersSet(t); return set == 0 }, time.Minute, 10*time.Millisecond)
}

package efa_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

func init() { idleRole = idleChild }

// switches counts how often threads of a process have gone to sleep.
func switches(t *testing.T, pid int) (n int) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	require.NoError(t, err)
	for _, path := range threads {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		_, rest, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
		var k int
		_, err = fmt.Sscan(rest, &k)
		require.NoError(t, err)
		n += k
	}
	return n
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
// their locks its threads slept 34 times a second.
func TestIdleProcess(t *testing.T) {
	testenv.Long(t, "a process does nothing for real seconds")
	for _, peers := range []int{1, 16} {
		t.Run(strconv.Itoa(peers), func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Chmod(dir, 0o700))
			var all []*side
			for range peers {
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
				before := switches(t, cmd.Process.Pid)
				<-clock.NewTimer(time.Second).C
				least = min(least, switches(t, cmd.Process.Pid)-before)
			}
			t.Logf("%d peers: %d sleeps a second", peers, least)
			require.LessOrEqual(t, least, 2)
		})
	}
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

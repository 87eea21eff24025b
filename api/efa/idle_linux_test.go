package efa_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/api/efa"
)

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

//go:build unix

package efa_test

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/tcp"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/directtest"
)

// TestDirect: endpoints without the protocol on all devices of software.
func TestDirect(t *testing.T) {
	kinds := maps.Clone(devices)
	kinds["writes that take a receive"] = sim.DeviceConfig{RDMAWrite: true, MaxRDMA: maxRDMA}
	for _, name := range some(t, slices.Sorted(maps.Keys(kinds))) {
		dev := kinds[name]
		t.Run("sim "+name, func(t *testing.T) {
			directtest.Run(t, func() func(*testing.T) efa.Device {
				var f *sim.Fabric
				var of *testing.T
				return func(t *testing.T) efa.Device {
					if of != t {
						f, of = newFabric(t, sim.Config{}), t
					}
					return closed(t)(f.OpenDevice(dev))
				}
			}())
		})
	}
	t.Run("shm", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "fabric")
		directtest.Run(t, func(t *testing.T) efa.Device { return closed(t)(shm.Open(shm.Config{Dir: dir})) })
	})
	t.Run("tcp", func(t *testing.T) {
		directtest.Run(t, func(t *testing.T) efa.Device { return closed(t)(tcp.Open(tcp.Config{})) })
	})
}

// TestDirectKilledPeer: what is in progress with a process that is killed ends with an error,
// and the endpoint learns of the death.
func TestDirectKilledPeer(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the shm device needs Linux")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	dev := closed(t)(shm.Open(shm.Config{Dir: dir}))
	me := newEndpoint(t, domainOn(t, dev, efa.DomainConfig{}), efa.EndpointConfig{Direct: true})
	ctx := testContext(t)
	cmd, addr := startChild(t, dir, me.ep.Address(), directEnv+"=1")
	peer, err := me.av.Insert(addr)
	require.NoError(t, err)
	got := start(t, me, &efa.RecvReq{Buf: make([]byte, 10)})
	require.NoError(t, me.ep.Send(ctx, peer, []byte("echo"), efa.Inject))
	require.Equal(t, 4, done(t, got).N)
	waiting := start(t, me, &efa.RecvReq{Buf: make([]byte, 10)})
	require.NoError(t, cmd.Process.Signal(sigStop))
	var status syscall.WaitStatus
	_, err = syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil) // until all its threads are
	require.NoError(t, err)
	require.True(t, status.Stopped())
	var sent []*efa.Op
	for range 300 { // more than it has receives for
		sent = append(sent, start(t, me, &efa.SendReq{To: peer, Buf: make([]byte, 10)}))
	}
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	failed := 0
	for _, op := range sent {
		if _, err := op.Wait(ctx); err != nil {
			require.ErrorIs(t, err, efa.ErrPeerFailed)
			failed++
		}
	}
	require.GreaterOrEqual(t, failed, 299)
	ev, err := me.ep.NextEvent(ctx)
	require.NoError(t, err)
	require.Equal(t, efa.PeerFailed, ev.Kind)
	require.Equal(t, peer, ev.Peer)
	waiting.Cancel() // it is for anybody's message
	_, err = waiting.Wait(ctx)
	require.ErrorIs(t, err, efa.ErrCanceled)
}

// TestDirectOnOneDevice: an endpoint over several devices cannot do without the protocol.
func TestDirectOnOneDevice(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fabric")
	near, err := shm.Open(shm.Config{Dir: dir})
	require.NoError(t, err)
	far, err := tcp.Open(tcp.Config{})
	require.NoError(t, err)
	dom := domainOn(t, closed(t)(efa.JoinDevices(near, far)), efa.DomainConfig{})
	ep, err := dom.NewEndpoint(efa.EndpointConfig{Direct: true})
	require.NoError(t, err)
	require.ErrorIs(t, ep.Enable(testContext(t)), efa.ErrNotSupported)
	require.NoError(t, ep.Close())
}

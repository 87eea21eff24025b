//go:build linux

// Package netconn_test runs efanet under the tests and programs of other modules.
package netconn_test

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/net/nettest"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/uverbs"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efanet"
	"github.com/efactor/efactor/interop/efaemu/driver"
	"github.com/efactor/efactor/interop/efaemu/profile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sides are the setups of a listener and of a dialer.
type sides struct{ listen, dial *efa.Setup }

func named(device string) func(testing.TB) sides {
	return func(testing.TB) sides {
		s := &efa.Setup{Fabric: efa.Config{DeviceName: device}}
		return sides{s, s}
	}
}

// cards are two emulated EFA devices of one fabric, each on a host of its own.
func cards(tb testing.TB) sides {
	dir := filepath.Join(tb.TempDir(), "fabric")
	p, err := profile.Named("rdma-write")
	require.NoError(tb, err)
	on := func(name string) *efa.Setup {
		carrier, err := shm.Open(shm.Config{Dir: dir, GID: shm.HostGID(name)})
		require.NoError(tb, err)
		card, err := driver.New(carrier, p)
		require.NoError(tb, err)
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { card.Run(ctx) })
		var d device.Device
		d, err = uverbs.Open(uverbs.Config{Name: name, Kernel: card.System()})
		require.NoError(tb, err)
		tb.Cleanup(func() {
			// The endpoints end by themselves, after the last connection.
			require.Eventually(tb, func() bool { return d.Close() == nil }, time.Minute, time.Millisecond)
			cancel()
			running.Wait()
			require.NoError(tb, card.Close())
		})
		return &efa.Setup{Fabric: efa.Config{Device: d}}
	}
	return sides{on("a"), on("b")}
}

var devices = []struct {
	name string
	open func(testing.TB) sides
}{{"shm", named("shm")}, {"tcp", named("tcp")}, {"card", cards}}

func listen(tb testing.TB, s sides) net.Listener {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l, err := (&efanet.ListenConfig{Setup: s.listen}).Listen(ctx, "")
	require.NoError(tb, err)
	return l
}

// TestConn is the test that x/net has for every net.Conn.
func TestConn(t *testing.T) {
	for _, dev := range devices {
		t.Run(dev.name, func(t *testing.T) {
			s := dev.open(t)
			l := listen(t, s)
			t.Cleanup(func() { require.NoError(t, l.Close()) })
			d := &efanet.Dialer{Setup: s.dial, Timeout: time.Minute}
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				if c1, err = d.Dial(context.Background(), l.Addr().String()); err != nil {
					return nil, nil, nil, err
				}
				if c2, err = l.Accept(); err != nil {
					return nil, nil, nil, err
				}
				return c1, c2, func() {
					_ = c1.Close() // perhaps for the second time
					_ = c2.Close()
				}, nil
			})
		})
	}
}

//go:build linux

package tcp

import (
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/internal/devicetest"
)

// hosts gives each test device an address of its own; those of other processes that run
// these tests differ, too.
var hosts atomic.Uint32

func nextHost() netip.Addr {
	n := hosts.Add(1)
	return netip.AddrFrom4([4]byte{127, byte(1 + os.Getpid()%254), byte(n >> 8), byte(n)})
}

func openDevice(tb testing.TB, cfg Config) *attachment {
	tb.Helper()
	if !cfg.Addr.IsValid() {
		cfg.Addr = nextHost()
	}
	d, err := Open(cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			require.ErrorIs(tb, err, device.ErrClosed)
		}
	})
	return d.(*attachment)
}

func (a *attachment) eachPort(f func(*port)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range a.ports {
		f(p)
	}
}

// serve does for a queue pair that a case leaves alone what a shard does in the
// background: it lets the sockets go on, and wakes a sleeper if that brought something.
func (p *port) serve() {
	armed := p.armed
	p.progress()
	p.Doorbell()
	if p.armed = armed; armed && !p.inbox.polled() {
		p.WakeAt(0)
	}
}

// vanish ends a device as its process's death would.
func vanish(a *attachment) { a.eachPort(func(p *port) { p.net.vanish() }) }

func factory(tb testing.TB, devices int) *devicetest.Fabric {
	return factoryOf(func() Config { return Config{} })(tb, devices)
}

// factoryOf makes fabrics of devices that are configured so.
func factoryOf(cfg func() Config) devicetest.Factory {
	return func(tb testing.TB, devices int) *devicetest.Fabric { return newFabric(tb, devices, cfg) }
}

func newFabric(tb testing.TB, devices int, cfg func() Config) *devicetest.Fabric {
	f := &devicetest.Fabric{ReportsGone: true, ReportsRefused: true}
	for range devices {
		f.Devices = append(f.Devices, openDevice(tb, cfg()))
	}
	f.Progress = func() {
		for _, d := range f.Devices {
			d.(*attachment).eachPort((*port).serve)
		}
	}
	f.Kill = func(i int) { vanish(f.Devices[i].(*attachment)) }
	return f
}

func TestConformance(t *testing.T) { devicetest.RunPart(t, 0, 2, factory) }

// ticksPass makes ticks pass; with a timeout of an hour there are no others.
func ticksPass(n *node, k int) {
	for range k {
		n.port().onTick()
	}
}

// TestSetUpWithinTimeout: all stages of setting a connection up have one timeout together, and
// so have all connections that are tried for it.
func TestSetUpWithinTimeout(t *testing.T) {
	const early, late = lostAfter - 1, 2
	for name, stages := range map[string]func(*host){
		"late greeting": func(h *host) {
			c := h.bare()
			ticksPass(h.n, early)
			_, err := c.Write(appendGreeting(nil, taken))
			require.NoError(h.t, err)
			until(h.t, "a preamble", func() bool { return h.n.port().remotes[h.at].dialed.lanes[0].state == laneAwaitingReply }, h.n)
		},
		"late end": func(h *host) {
			c := h.bare()
			ticksPass(h.n, early)
			require.NoError(h.t, c.Close())
			h.bare()
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, Config{Timeout: time.Hour}, device.QPConfig{})
			h := newHost(t, n)
			id := n.send(h.at, "hello?")
			stages(h)
			require.Empty(t, n.sends)
			ticksPass(n, late)
			require.Equal(t, device.StatusUnresponsive, n.status(id))
		})
	}
}

// TestStrangerWithinTimeout: nor has a connection that was accepted more time because its user
// was long looked up.
func TestStrangerWithinTimeout(t *testing.T) {
	n := newNode(t, Config{Timeout: time.Hour}, device.QPConfig{})
	u := n.port().acceptor.uids
	u.mu.Lock()
	u.busy = true // it asks nobody yet
	u.mu.Unlock()
	f := newFoe(t, n, nil)
	until(t, "that it is in", func() bool { return n.port().acceptor.accepted == 1 }, n)
	ticksPass(n, lostAfter-1)
	go u.run()
	until(t, "greeting", func() bool { f.hear(); return f.greeted }, n)
	require.Equal(t, 1, n.port().acceptor.accepted)
	ticksPass(n, 2)
	f.closed()
}

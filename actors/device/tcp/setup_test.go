//go:build linux

package tcp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

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

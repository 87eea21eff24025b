package nic

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

// TestSilentReceiver: a receiver from which no answer comes takes up a share of what may be
// under way, so that datagrams to others go out; all are over at once. With the answers there is
// room again.
func TestSilentReceiver(t *testing.T) {
	q, c, silent := start(t, func(cfg *Config) { cfg.Datagram, cfg.Depth = true, 8 })
	other, err := q.CreateAH(device.GID{9})
	require.NoError(t, err)
	c.answer = func(wr *device.SendWR) device.Status {
		if wr.AH == silent {
			return Pending
		}
		return device.StatusOK
	}
	send := func(ah device.AH) {
		wr := device.SendWR{AH: ah, Prompt: true}
		require.NoError(t, q.PostSend(&wr))
		require.True(t, wr.Over)
	}
	for range 100 {
		send(silent)
		send(other)
	}
	require.Len(t, c.attempts, 2+100)
	require.EqualValues(t, 98, q.Stats().Lost)
	for _, x := range c.attempts {
		if x.ah == silent {
			c.arrivals = append(c.arrivals, device.Completion{Op: device.OpSend, ID: x.token, Status: device.StatusRNR})
		}
	}
	require.Empty(t, drain(q))
	require.EqualValues(t, 100, q.Stats().Lost)
	send(silent)
	require.Len(t, c.attempts, 103)
	require.Zero(t, q.Outstanding())
	require.Zero(t, q.Stats().Refused)
}

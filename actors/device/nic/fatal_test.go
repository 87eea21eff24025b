package nic

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

// TestFatal: the end of the queue pair is the last that is polled, whether arrivals or sends
// have their turn, and then there is nothing to wait for.
func TestFatal(t *testing.T) {
	fatal := device.Completion{Op: device.OpFatal, Status: device.StatusQPInternal}
	for _, room := range []int{1, 2, 3, 16} {
		for turns := range 2 {
			q, c, ah := start(t, func(cfg *Config) { cfg.RNRRetry = 7 })
			for range turns {
				require.Empty(t, drain(q))
			}
			for id := range uint64(2) {
				require.NoError(t, q.PostSend(&device.SendWR{ID: id, AH: ah}))
			}
			c.answer = answer(device.StatusRNR)
			require.NoError(t, q.PostSend(&device.SendWR{ID: 2, AH: ah}))
			c.arrivals = []device.Completion{{Op: device.OpGone}, fatal, {Op: device.OpGone}}
			var got []device.Completion
			for range 10 {
				b := make([]device.Completion, room)
				got = append(got, b[:q.Poll(b)]...)
			}
			require.Equal(t, fatal, got[len(got)-1])
			require.ErrorIs(t, q.PostSend(&device.SendWR{ID: 3, AH: ah}), device.ErrClosed)
			require.True(t, q.Arm())
			tries := len(c.attempts)
			c.clk.now = c.clk.now.Add(1 << 40)
			q.Doorbell()
			q.PostRecv([]int32{0})
			require.Len(t, c.attempts, tries, "nothing is sent again")
			require.Zero(t, c.bells)
			require.Empty(t, c.posted)
			require.NoError(t, q.DestroyAH(ah))
			require.NoError(t, q.Close())
		}
	}
}

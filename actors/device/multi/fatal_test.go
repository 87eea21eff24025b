package multi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/multi"
)

// TestOnePathFails: the end of one path is that of the queue pair: nothing comes after it, and
// nothing is taken for any path.
func TestOnePathFails(t *testing.T) {
	fatal := device.Completion{Op: device.OpFatal, Status: device.StatusQPInternal}
	for _, room := range []int{1, 2, 16} {
		a, b, log := pair()
		d, err := multi.Open(a, b)
		require.NoError(t, err)
		qp, err := d.OpenQP(device.QPConfig{})
		require.NoError(t, err)
		toB, err := qp.CreateAH(device.GID{2})
		require.NoError(t, err)
		sent := device.Completion{Op: device.OpSend, ID: 1}
		a.qps[0].comps = []device.Completion{sent, fatal, sent}
		b.qps[0].comps = []device.Completion{sent, sent, sent, sent}
		var got []device.Completion
		for range 20 {
			c := make([]device.Completion, room)
			got = append(got, c[:qp.Poll(c)]...)
		}
		require.Contains(t, got, fatal)
		require.Equal(t, fatal, got[len(got)-1], "the last")
		*log = nil
		require.ErrorIs(t, qp.PostSend(&device.SendWR{AH: toB}), device.ErrClosed)
		require.True(t, qp.Arm(), "there is nothing to poll for")
		qp.PostRecv([]int32{0, 4})
		qp.Doorbell()
		require.Empty(t, *log)
		require.NoError(t, qp.Close())
		require.NoError(t, d.Close())
	}
}

//go:build linux

package shm

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

// TestCutThenDead: the news of a death is how a queue pair finds out that the segment of
// the dead was cut before.
func TestCutThenDead(t *testing.T) {
	c := newCutter(t, true)
	good, v := c.start(true), c.start(true)
	c.greet(good)
	c.greet(v)
	require.True(t, cut(filepath.Join(c.dir, segmentName(v.qpn))))
	v.kill()
	require.Equal(t, v.qpn, c.until(device.OpGone).SrcQPN)
	require.Equal(t, device.StatusBadDestQPN, c.do(device.SendWR{QPN: v.qpn, Payload: []byte("hello")}))
	c.greet(good)
	good.end(t)
}

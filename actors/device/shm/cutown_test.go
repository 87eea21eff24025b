//go:build linux

package shm

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

// TestCutOwnMemory: a request whose bytes are in a region of ours that was cut panics, and leaves
// no lease on the other side's region, and no use of its mapping.
func TestCutOwnMemory(t *testing.T) {
	c := newCutter(t, true)
	v := c.start(true)
	c.greet(v)
	mr, err := c.d.Alloc(100_000, device.LocalWrite)
	require.NoError(t, err)
	require.True(t, cut(filepath.Join(c.dir, regionName(mr.RKey()))))
	theirs := (*c.d.(*attachment).mappings.byKey.Load())[v.key]
	for _, kind := range []device.WR{device.WRRead, device.WRWrite} {
		wr := v.rdma(kind)
		wr.AH, wr.QKey, wr.Payload = c.ah, testQKey, mr.Bytes()
		require.Panics(t, func() { _ = c.q.PostSend(&wr) })
		require.Zero(t, theirs.control().leases.Load())
		require.EqualValues(t, 1, theirs.users.n.Load(), "the table's")
	}
	c.greet(v)
	require.NoError(t, mr.Close())
	v.end(t)
}

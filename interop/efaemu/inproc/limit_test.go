//go:build linux

package inproc_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// The device limits each kind of object, for all programs together.
func TestLimits(t *testing.T) {
	r := newRig(t, named(t, "small"))
	c, other := r.ready(t), r.ready(t)
	full := func(n uint32, one func() error) {
		t.Helper()
		for range n {
			require.NoError(t, one())
		}
		assert.Equal(t, unix.ENOMEM, one())
	}
	pd := must(c.pd())
	full(r.prof.MaxMR, func() error { _, err := c.mr(pd, 0); return err })
	i := byte(0)
	full(r.prof.MaxAH, func() error { i++; _, _, err := c.ah(pd, device.GID{i}); return err })
	_, _, err := c.ah(pd, device.GID{1})
	assert.NoError(t, err, "one that is there already takes none")

	full(r.prof.MaxCQ, func() error { _, err := other.createCQ(r, cqWant{}); return err })
	_, err = c.createCQ(r, cqWant{})
	assert.Equal(t, unix.ENOMEM, err, "in another context")
	pd2 := must(other.pd())
	cq := uint64(0)
	full(r.prof.MaxQP, func() error { _, err := other.createQP(pd2, cq, cq, qpWant{}); return err })
	full(r.prof.MaxPD-2, func() error { _, err := c.pd(); return err })
	_, err = c.createQP(pd, 99, 99, qpWant{})
	assert.Equal(t, unix.ENOENT, err)
	failed := r.Commands()
	assert.Equal(t, []uint64{1, 1, 2, 1, 1, 0}, []uint64{failed.MRs, failed.AHs, failed.CQs, failed.QueuePairs, failed.PDs, failed.Contexts})
	assert.EqualValues(t, 6, failed.Failed)
	r.findings.Take() // findings about too large CQs
	other.close()
	_, err = c.createCQ(r, cqWant{})
	assert.NoError(t, err)
	c.close()
}

// The room of a device file is limited, and freed room is available again, zeroed.
func TestRoom(t *testing.T) {
	p := named(t, "efa")
	r := newRig(t, p)
	c := r.ready(t)
	var all []cqMade
	for {
		cq, err := c.createCQ(r, cqWant{entries: 32768})
		if err != nil {
			assert.Equal(t, unix.ENOMEM, err)
			break
		}
		all = append(all, cq)
	}
	assert.Greater(t, len(all), 200)
	live := r.Stats()
	assert.Equal(t, len(all), live.CQs, "what didn't fit left nothing")
	b, err := c.f.Mmap(int64(all[7].Key), int(all[7].Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	b[5], b[1<<20-1] = 1, 1
	require.NoError(t, c.destroy(abi.ObjectCQ, all[7].handle))
	assert.Zero(t, b[5], "given back")
	b[6] = 1
	_, err = c.createCQ(r, cqWant{entries: 32768})
	assert.Equal(t, unix.ENOMEM, err, "still mapped")
	require.NoError(t, c.f.Munmap(b))
	cq, err := c.createCQ(r, cqWant{entries: 32768})
	require.NoError(t, err)
	assert.Equal(t, all[7].Key, cq.Key)
	b, err = c.f.Mmap(int64(cq.Key), int(cq.Size), unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	assert.Zero(t, b[5])
	assert.Zero(t, b[6])
	assert.Zero(t, b[1<<20-1])
	require.NoError(t, c.f.Munmap(b))
	found, n := r.findings.Take()
	require.Equal(t, 1, n, "%v", found)
	assert.Equal(t, "map-prot: CQ ring: mapped with protection 3 where 1 is enough", found[0].String())
	c.close()
}

func TestMmap(t *testing.T) {
	r := newRig(t, named(t, "efa"))
	q := r.queues(t)
	depths := abi.QPCap{MaxSendWR: 64, MaxSendSGE: 1}
	qp := q.qp(qpWant{caps: &depths, cmd: fits(depths)})
	page := unix.Getpagesize()
	mmap := func(key uint64, n, prot, flags int) func(*client) error {
		return func(c *client) error {
			b, err := c.f.Mmap(int64(key), n, prot, flags)
			if err == nil {
				require.NoError(c.t, c.f.Munmap(b))
			}
			return err
		}
	}
	const w, shared = unix.PROT_WRITE, unix.MAP_SHARED
	run(t, q.client, []misuse{
		{"as it should be", mmap(qp.SQDoorbellKey, page, w, shared), nil},
		{"a part of the page", mmap(qp.SQDoorbellKey, 4, w, shared), nil},
		{"too long", mmap(qp.SQDoorbellKey, page+1, w, shared), unix.EINVAL},
		{"too short", mmap(qp.LLQKey, 1, w, shared), unix.EINVAL},
		{"nothing", mmap(qp.LLQKey, 0, w, shared), unix.EINVAL},
		{"private", mmap(qp.LLQKey, 2*page, w, unix.MAP_PRIVATE), unix.EINVAL},
		{"within", mmap(qp.LLQKey+uint64(page), page, w, shared), unix.EINVAL},
		{"within a page", mmap(qp.SQDoorbellKey+64, page, w, shared), unix.EINVAL},
		{"negative", mmap(1<<63, page, w, shared), unix.EINVAL},
		{"nowhere", mmap(1<<40, page, w, shared), unix.EINVAL},
		{"executable", mmap(qp.SQDoorbellKey, page, w|unix.PROT_EXEC, shared), unix.EPERM},
		{"unmapped as a part", func(c *client) error {
			b, err := c.f.Mmap(int64(qp.SQDoorbellKey), page, w, shared)
			require.NoError(c.t, err)
			defer c.f.Munmap(b)
			return c.f.Munmap(b[:8])
		}, unix.EINVAL},
		{"unmapped twice", func(c *client) error { return c.f.Munmap(c.page) }, unix.EINVAL},
		{"unmapped, empty", func(c *client) error { return c.f.Munmap(nil) }, unix.EINVAL},
	})
	require.NoError(t, q.destroy(abi.ObjectQP, qp.handle))
	_, err := q.f.Mmap(int64(qp.SQDoorbellKey), page, w, shared)
	assert.Equal(t, unix.EINVAL, err, "destroyed")
	q.close()
	_, err = q.f.Mmap(int64(qp.SQDoorbellKey), page, w, shared)
	assert.Equal(t, unix.EBADF, err, "closed")
	assert.Equal(t, unix.EINVAL, q.f.Munmap(q.page))
}

// Offsets of doorbells and of the LLQ are not 0 and differ between queues.
func TestOffsets(t *testing.T) {
	r := newRig(t, named(t, "efa"))
	q := r.queues(t)
	a, b := q.qp(qpWant{}), q.qp(qpWant{})
	for _, off := range []struct{ a, b, align uint32 }{
		{a.SQDoorbellOff, b.SQDoorbellOff, 4}, {a.RQDoorbellOff, b.RQDoorbellOff, 4}, {a.LLQOff, b.LLQOff, 64},
	} {
		assert.NotZero(t, off.a)
		assert.NotEqual(t, off.a, off.b)
		assert.Zero(t, off.a%off.align)
		assert.Less(t, off.a, uint32(4096))
	}
	q.close()
}

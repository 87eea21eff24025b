//go:build linux

package inproc_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/profile"
)

func TestRefusedRegions(t *testing.T) {
	r := newRig(t, profile.Default())
	c := r.ready(t)
	pd := must(c.pd())
	cq := must(c.createCQ(r, cqWant{}))
	m := c.memory()
	constant, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(constant)) }()
	good := abi.RegMR{Start: addr(m), Length: uint64(len(m)), IOVA: addr(m), PD: uint32(pd), Access: abi.AccessLocalWrite}
	with := func(change func(*abi.RegMR)) func(*client) error {
		return func(c *client) error {
			m := good
			change(&m)
			mr, err := c.reg(m)
			if err == nil {
				require.NoError(c.t, c.destroy(abi.ObjectMR, uint64(mr.Handle)))
			}
			return err
		}
	}
	access := func(a uint32) func(*client) error { return with(func(m *abi.RegMR) { m.Access = a }) }
	run(t, c, []misuse{
		{"as it should be", with(func(*abi.RegMR) {}), nil},
		{"other pages", with(func(m *abi.RegMR) { m.IOVA = 1 << 40 }), nil},
		{"offset in the page", with(func(m *abi.RegMR) { m.IOVA++ }), unix.EINVAL},
		{"no bytes", with(func(m *abi.RegMR) { m.Length = 0 }), unix.EINVAL},
		{"around the end", with(func(m *abi.RegMR) { m.Length = -m.Start }), unix.EINVAL},
		{"beyond the end", with(func(m *abi.RegMR) { m.Length = ^uint64(0) }), unix.EINVAL},
		{"not mapped", with(func(m *abi.RegMR) { m.Start, m.IOVA = 8, 8 }), unix.EFAULT},
		{"end not mapped", with(func(m *abi.RegMR) { m.Length = 1 << 46 }), unix.EFAULT},
		{"to write what is read-only", with(func(m *abi.RegMR) { m.Start, m.IOVA, m.Length = addr(constant), 0, 4096 }), unix.EFAULT},
		{"to read what is read-only", with(func(m *abi.RegMR) {
			m.Start, m.IOVA, m.Length, m.Access = addr(constant), 0, 4096, 0
		}), nil},
		{"unknown pd", with(func(m *abi.RegMR) { m.PD = 99 }), unix.EINVAL},
		{"a cq for a pd", with(func(m *abi.RegMR) { m.PD = uint32(cq.handle) }), unix.EINVAL},
		{"no rights", access(0), nil},
		{"remote read", access(abi.AccessRemoteRead), nil},
		{"remote read and local write", access(abi.AccessRemoteRead | abi.AccessLocalWrite), nil},
		{"remote write alone", access(abi.AccessRemoteWrite), unix.EINVAL},
		{"remote write", access(abi.AccessRemoteWrite | abi.AccessLocalWrite), unix.EOPNOTSUPP},
		{"atomics alone", access(abi.AccessRemoteAtomic), unix.EINVAL},
		{"atomics", access(abi.AccessRemoteAtomic | abi.AccessLocalWrite), unix.EOPNOTSUPP},
		{"windows", access(1 << 4), unix.EOPNOTSUPP},
		{"zero based", access(1 << 5), unix.EOPNOTSUPP},
		{"on demand", access(abi.AccessOnDemand), unix.EOPNOTSUPP},
		{"huge pages", access(1 << 7), unix.EOPNOTSUPP},
		{"unknown right", access(1 << 12), unix.EINVAL},
		{"relaxed ordering", access(1<<20 | abi.AccessLocalWrite), nil},
		{"all that is optional", access(abi.AccessOptional), nil},
		{"driver's input", func(c *client) error {
			return c.command(abi.CmdRegMR, good.Append(nil), make([]byte, 12), nil, in(abi.AttrUHWIn, []byte{0, 1}))
		}, unix.EINVAL},
		{"output nowhere", func(c *client) error {
			return c.command(abi.CmdRegMR, good.Append(nil), nil, nil, out(abi.InvokeCoreOut, make([]byte, 12)).with(badOutput))
		}, unix.EFAULT},
		{"long input", func(c *client) error {
			return c.command(abi.CmdRegMR, append(good.Append(nil), 1), make([]byte, 12), nil)
		}, unix.EOPNOTSUPP},
	})
	assert.Zero(t, r.Stats().MRs)
	c.close()

	for _, p := range []struct {
		profile string
		access  uint32
		want    error
	}{
		{"no-rdma", abi.AccessRemoteRead, unix.EOPNOTSUPP},
		{"rdma-write", abi.AccessRemoteWrite | abi.AccessLocalWrite, nil},
	} {
		r := newRig(t, named(t, p.profile))
		c := r.ready(t)
		_, err := c.mr(must(c.pd()), p.access)
		require.ErrorIs(t, err, p.want, p.profile)
		c.close()
	}
}

func TestRefusedDMABuf(t *testing.T) {
	r := newRig(t, profile.Default())
	c := r.ready(t)
	pd := must(c.pd())
	file := c.async()
	type args struct {
		offset, iova uint64
		fd, access   uint32
	}
	with := func(a args) func(*client) error {
		return func(c *client) error {
			var h uint64
			return c.call(abi.ObjectMR, abi.MRRegDMABuf, made(&h), obj(abi.DMABufPD, pd),
				u64(abi.DMABufOffset, a.offset), u64(abi.DMABufLength, 4096), u64(abi.DMABufIOVA, a.iova),
				u32(abi.DMABufFD, a.fd), u32(abi.DMABufAccess, a.access),
				out(abi.DMABufLKey, make([]byte, 4)), out(abi.DMABufRKey, make([]byte, 4)))
		}
	}
	run(t, c, []misuse{
		{"a descriptor", with(args{fd: uint32(file)}), unix.EINVAL},
		{"none", with(args{fd: 1 << 20}), unix.EBADF},
		{"negative", with(args{fd: ^uint32(0)}), unix.EBADF},
		{"offset in the page", with(args{fd: uint32(file), iova: 1}), unix.EINVAL},
		{"unknown right", with(args{fd: uint32(file), access: 1 << 12}), unix.EINVAL},
		{"remote write", with(args{fd: uint32(file), access: 3}), unix.EOPNOTSUPP},
	})
	require.NoError(t, unix.Close(file))
	c.close()
}

func TestRefusedAddressHandles(t *testing.T) {
	r := newRig(t, profile.Default())
	c := r.ready(t)
	pd := must(c.pd())
	good := abi.CreateAH{PD: uint32(pd), GID: r.info.GID, IsGlobal: 1, Port: 1, SL: 3, TrafficClass: 4, HopLimit: 255}
	with := func(change func(*abi.CreateAH)) func(*client) error {
		return func(c *client) error {
			m := good
			change(&m)
			h, _, err := c.createAH(m)
			if err == nil {
				require.NoError(c.t, c.destroy(abi.ObjectAH, h))
			}
			return err
		}
	}
	run(t, c, []misuse{
		{"as it should be", with(func(*abi.CreateAH) {}), nil},
		{"of nobody", with(func(m *abi.CreateAH) { m.GID = device.GID{1: 9} }), nil},
		{"other port", with(func(m *abi.CreateAH) { m.Port = 2 }), unix.EINVAL},
		{"no port", with(func(m *abi.CreateAH) { m.Port = 0 }), unix.EINVAL},
		{"second GID of ours", with(func(m *abi.CreateAH) { m.SGIDIndex = 1 }), unix.EINVAL},
		{"no GID", with(func(m *abi.CreateAH) { m.GID = [16]byte{} }), unix.EINVAL},
		{"not global", with(func(m *abi.CreateAH) { m.IsGlobal = 0 }), unix.EINVAL},
		{"unknown pd", with(func(m *abi.CreateAH) { m.PD = 7 }), unix.EINVAL},
		{"driver's input", func(c *client) error {
			return c.command(abi.CmdCreateAH, good.Append(nil), make([]byte, 4), nil, in(abi.AttrUHWIn, []byte{1}))
		}, unix.EINVAL},
		{"output nowhere", func(c *client) error {
			return c.command(abi.CmdCreateAH, good.Append(nil), make([]byte, 4), nil,
				out(abi.AttrUHWOut, make([]byte, 8)).with(badOutput))
		}, unix.EFAULT},
	})
	assert.Zero(t, r.Stats().AHs)
	require.NoError(t, c.destroy(abi.ObjectPD, pd), "no use is left")
	c.close()
}

func TestRefusedCompletionQueues(t *testing.T) {
	r := newRig(t, profile.Default())
	c := r.ready(t)
	ch, file := c.channel(), c.async()
	with := func(change func(*cqWant)) func(*client) error {
		return func(c *client) error {
			var w cqWant
			change(&w)
			cq, err := c.createCQ(r, w)
			if err == nil {
				require.NoError(c.t, c.destroy(abi.ObjectCQ, cq.handle))
			}
			return err
		}
	}
	cmd := func(m abi.CreateCQ) func(*client) error { return with(func(w *cqWant) { w.cmd = m }) }
	more := func(a ...attr) func(*client) error { return with(func(w *cqWant) { w.more = a }) }
	uhw := func(n int) func(*client) error {
		return func(c *client) error {
			m := abi.CreateCQ{EntrySize: 32, SubCQs: 1}
			b := append(m.Append(nil), 1)[:n]
			var h uint64
			err := c.call(abi.ObjectCQ, abi.CQCreate, made(&h), u32(abi.CreateCQEntries, 8),
				u64(abi.CreateCQUserHandle, 0), u32(abi.CreateCQVector, 0), out(abi.CreateCQRespDepth, make([]byte, 4)),
				in(abi.AttrUHWIn, b))
			if err == nil {
				require.NoError(c.t, c.destroy(abi.ObjectCQ, h))
			}
			return err
		}
	}
	run(t, c, []misuse{
		{"as it should be", with(func(*cqWant) {}), nil},
		{"16 bytes", cmd(abi.CreateCQ{EntrySize: 16}), nil},
		{"24 bytes", cmd(abi.CreateCQ{EntrySize: 24}), unix.EINVAL},
		{"GIDs take 32", cmd(abi.CreateCQ{EntrySize: 16, Flags: abi.CQSGID}), unix.EINVAL},
		{"GIDs", cmd(abi.CreateCQ{Flags: abi.CQSGID}), nil},
		{"two sub-CQs", cmd(abi.CreateCQ{SubCQs: 2}), unix.EINVAL},
		{"comp mask", cmd(abi.CreateCQ{CompMask: 1}), unix.EINVAL},
		{"reserved", cmd(abi.CreateCQ{Reserved: [5]byte{4: 1}}), unix.EINVAL},
		{"most entries", with(func(w *cqWant) { w.entries = 32768 }), nil},
		{"too many entries", with(func(w *cqWant) { w.entries = 65536 }), unix.EINVAL},
		{"no power of two", with(func(w *cqWant) { w.entries = 48 }), unix.EINVAL},
		{"vector", with(func(w *cqWant) { w.vector = 2 }), unix.EINVAL},
		{"last vector", with(func(w *cqWant) { w.vector = 1 }), nil},
		{"timestamps", more(u32(abi.CreateCQFlags, 1)), unix.EOPNOTSUPP},
		{"unknown flag", more(u32(abi.CreateCQFlags, 8)), unix.EINVAL},
		{"no flags", more(u32(abi.CreateCQFlags, 0)), nil},
		{"channel that is none", more(obj(abi.CreateCQChannel, uint64(file))), unix.EBADF},
		{"channel that isn't open", more(obj(abi.CreateCQChannel, 1<<20)), unix.EBADF},
		{"channel of 64 bits", more(obj(abi.CreateCQChannel, 1<<40)), unix.EINVAL},
		{"negative channel", more(obj(abi.CreateCQChannel, ^uint64(0))), unix.EBADF},
		{"async file that is none", more(obj(abi.CreateCQAsync, uint64(ch))), unix.EBADF},
		{"driver's input too short", uhw(9), unix.EINVAL},
		{"without flags", uhw(10), nil},
		{"zeros and a 1", uhw(17), unix.EINVAL},
	})
	found, n := r.findings.Take()
	assert.Zero(t, n, "%v", found)
	require.NoError(t, with(func(w *cqWant) { w.cmd.Flags = 1 << 6 })(c))
	require.NoError(t, with(func(w *cqWant) { w.cmd.Flags = abi.CQChannel })(c))
	require.NoError(t, more(obj(abi.CreateCQChannel, uint64(ch)))(c))
	found, n = r.findings.Take()
	require.Equal(t, 3, n)
	assert.Equal(t, "cq-flags", found[0].Rule)
	assert.Equal(t, "cq-channel", found[1].Rule)
	assert.Equal(t, "cq-channel", found[2].Rule)
	live := r.Stats()
	assert.Zero(t, live.CQs)
	assert.Zero(t, live.Mapped)
	require.NoError(t, unix.Close(ch))
	require.NoError(t, unix.Close(file))
	c.close()

	old := newRig(t, named(t, "efa0"))
	c = old.ready(t)
	run(t, c, []misuse{
		{"one sub-CQ of two", func(c *client) error {
			_, err := c.createCQ(old, cqWant{cmd: abi.CreateCQ{SubCQs: 1}})
			return err
		}, unix.EINVAL},
		{"no events", func(c *client) error {
			_, err := c.createCQ(old, cqWant{cmd: abi.CreateCQ{Flags: abi.CQChannel}})
			return err
		}, unix.EINVAL},
	})
	cq := must(c.createCQ(old, cqWant{}))
	assert.Zero(t, cq.CompMask, "no doorbell")
	assert.EqualValues(t, 4096, cq.Size)
	c.close()
}

// Objects in use cannot be destroyed.
func TestBusy(t *testing.T) {
	r := newRig(t, profile.Default())
	c := r.ready(t)
	pd := must(c.pd())
	busy := func(object uint16, h uint64) {
		t.Helper()
		assert.Equal(t, unix.EBUSY, c.destroy(object, h))
	}
	mr := must(c.mr(pd, 0))
	busy(abi.ObjectPD, pd)
	require.NoError(t, c.destroy(abi.ObjectMR, uint64(mr.Handle)))
	ah, _, err := c.ah(pd, r.info.GID)
	require.NoError(t, err)
	busy(abi.ObjectPD, pd)
	require.NoError(t, c.destroy(abi.ObjectAH, ah))
	send, recv := must(c.createCQ(r, cqWant{})), must(c.createCQ(r, cqWant{}))
	qp := must(c.createQP(pd, send.handle, recv.handle, qpWant{}))
	busy(abi.ObjectPD, pd)
	busy(abi.ObjectCQ, send.handle)
	busy(abi.ObjectCQ, recv.handle)
	assert.Equal(t, unix.EINVAL, c.destroy(abi.ObjectCQ, qp.handle), "of another kind")
	require.NoError(t, c.destroy(abi.ObjectQP, qp.handle))
	assert.Equal(t, unix.ENOENT, c.destroy(abi.ObjectQP, qp.handle), "twice")
	require.NoError(t, c.destroy(abi.ObjectCQ, send.handle))
	require.NoError(t, c.destroy(abi.ObjectCQ, recv.handle))

	// Its output is checked after the destruction, which stays done.
	err = c.call(abi.ObjectCQ, abi.CQDestroy, obj(abi.DestroyHandle, 99), out(abi.DestroyResp, make([]byte, 7)))
	assert.Equal(t, unix.ENOENT, err)
	cq := must(c.createCQ(r, cqWant{}))
	err = c.call(abi.ObjectCQ, abi.CQDestroy, obj(abi.DestroyHandle, cq.handle), out(abi.DestroyResp, make([]byte, 8)).with(badOutput))
	assert.Equal(t, unix.EFAULT, err)
	assert.Equal(t, unix.ENOENT, c.destroy(abi.ObjectCQ, cq.handle))
	require.NoError(t, c.destroy(abi.ObjectPD, pd))
	c.close()
}

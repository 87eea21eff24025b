//go:build linux

package inproc_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/kernel"
	"github.com/efactor/efactor/interop/efaemu/profile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The whole sequence of libefa 44, in its order and with its attributes.
func TestLifeCycle(t *testing.T) {
	before := descriptors(t)
	r := newRig(t, profile.Default())
	c := r.open(t)

	// The probe for "write commands travel inside ioctl".
	require.ErrorIs(t, c.command(abi.CmdQueryDevice, make([]byte, 4), make([]byte, 4), nil), unix.ENOSPC)

	var ctx abi.ContextResp
	require.NoError(t, c.context(abi.CapTxBatch|abi.CapMinSQ, &ctx))
	assert.Equal(t, abi.ContextResp{Udata: 3, SubCQs: 1, Inline: 32, MaxLLQ: 256 << 10, MaxTxBatch: 16}, ctx)

	c.checkDevice()
	async := c.async()
	c.checkPort(r)

	pd := must(c.pd())
	mr := must(c.mr(pd, abi.AccessLocalWrite))
	assert.Equal(t, mr.LKey, mr.LKey&abi.LKeyMask)
	ch := c.channel()
	cq := must(c.createCQ(r, cqWant{cmd: abi.CreateCQ{Flags: abi.CQSGID | abi.CQChannel}, more: []attr{
		obj(abi.CreateCQChannel, uint64(ch)), obj(abi.CreateCQAsync, uint64(async)),
	}}))
	assert.Equal(t, uint32(64), cq.entries)
	assert.EqualValues(t, 4096, cq.Size)
	assert.EqualValues(t, abi.CQHasDoorbell, cq.CompMask)
	assert.Zero(t, cq.Key, "key 0 is legal")
	qp := must(c.createQP(pd, cq.handle, cq.handle, qpWant{more: []attr{
		obj(abi.CreateQPAsync, uint64(async)), u32(abi.CreateQPFlags, abi.QPAllSignalled),
	}}))
	maps := c.mapQueues(&cq, &qp)
	for _, b := range maps[:3] { // what may be read
		assert.Zero(t, slices.Max(b), "memory is zero")
	}
	require.NoError(t, c.modify(toInit(qp.handle, 0x1234)))
	require.NoError(t, c.modify(toRTR(qp.handle)))
	rts := toRTS(qp.handle)
	rts.Mask, rts.RNRRetry = 0x10801, 3
	require.NoError(t, c.modify(rts))
	q := c.query(qp.handle, abi.AttrState|abi.AttrRNRRetry|abi.AttrQKey|abi.AttrCaps)
	assert.Equal(t, abi.QueryQPResp{
		State: abi.QPRTS, QKey: 0x1234, RNRRetry: 3, Port: 1, AllSignalled: 1,
		Caps: abi.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 2, MaxRecvSGE: 1},
	}, q)

	ah, num, err := c.ah(pd, r.info.GID)
	require.NoError(t, err)
	ah2, num2, err := c.ah(pd, r.info.GID)
	require.NoError(t, err)
	assert.Equal(t, num.Number, num2.Number, "one number for one GID")
	assert.NotEqual(t, ah, ah2)

	live := r.Stats()
	assert.NotZero(t, live.Mapped)
	live.Mapped = 0
	assert.Equal(t, kernel.Stats{Contexts: 1, PDs: 1, MRs: 1, AHs: 1, CQs: 1, QueuePairs: 1, Channels: 1, AsyncFiles: 1}, live)

	require.NoError(t, c.destroy(abi.ObjectAH, ah))
	require.NoError(t, c.destroy(abi.ObjectAH, ah2))
	require.NoError(t, c.destroy(abi.ObjectQP, qp.handle))
	require.NoError(t, c.destroy(abi.ObjectCQ, cq.handle))
	require.NoError(t, unix.Close(ch))
	require.NoError(t, c.destroy(abi.ObjectMR, uint64(mr.Handle)))
	require.NoError(t, c.destroy(abi.ObjectPD, pd))
	for _, b := range maps {
		require.NoError(t, c.f.Munmap(b))
	}
	require.NoError(t, unix.Close(async))
	assert.Equal(t, kernel.Stats{Contexts: 1, Channels: 1, AsyncFiles: 1}, r.Stats())
	c.close()
	assert.Equal(t, before, descriptors(t))
}

func (c *client) checkDevice() {
	core, uhw := make([]byte, abi.DeviceAttrLen), make([]byte, abi.DeviceRespLen)
	require.NoError(c.t, c.command(abi.CmdQueryDeviceEx, make([]byte, abi.ExCmdLen), core, uhw))
	var attr abi.DeviceAttr
	require.NoError(c.t, attr.Parse(core))
	assert.Equal(c.t, abi.DeviceAttr{
		MaxMRSize: 1 << 40, PageSizeCap: 0xfffff000, VendorID: 0x1d0f, PartID: 0xefa1, HwVer: 0xefa1,
		MaxQP: 256, MaxQPWR: 4096, MaxSGE: 2, MaxSGERd: 1, MaxCQ: 512, MaxCQE: 32768, MaxMR: 65536,
		MaxPD: 256, MaxAH: 4096, MaxPkeys: 1, Ports: 1, ResponseLength: 304,
	}, attr)
	var resp abi.DeviceResp
	require.NoError(c.t, resp.Parse(uhw))
	assert.Equal(c.t, abi.DeviceResp{MaxSQ: 4096, MaxRQ: 32768, MaxSGESQ: 2, MaxSGERQ: 2, MaxRDMA: 1 << 30, Caps: 0xf}, resp)

	old := make([]byte, abi.DeviceAttrBaseLen)
	require.NoError(c.t, c.command(abi.CmdQueryDevice, make([]byte, abi.WriteCmdLen), old, nil))
	assert.Equal(c.t, core[:abi.DeviceAttrBaseLen], old)
}

func (c *client) checkPort(r *rig) {
	b := make([]byte, abi.PortAttrLen)
	require.NoError(c.t, c.call(abi.ObjectDevice, abi.DeviceQueryPort, u64(abi.QueryPortNumber, 1), out(abi.QueryPortResp, b)))
	var port abi.PortAttr
	require.NoError(c.t, port.Parse(b))
	assert.Equal(c.t, abi.PortAttr{
		MaxMsg: uint32(r.info.MTU), GIDTable: 1, PkeyTable: 1, State: abi.PortActive, MaxMTU: 5, ActiveMTU: 5,
		LMC: 1, MaxVL: 1, Width: 2, Speed: 32, PhysState: 5,
	}, port)
	b = make([]byte, abi.GIDEntryLen)
	require.NoError(c.t, c.call(abi.ObjectDevice, abi.DeviceQueryGIDEntry,
		u64(abi.GIDEntryPort, 1), u64(abi.GIDEntryIndex, 0), u32(abi.GIDEntryFlags, 0), out(abi.GIDEntryResp, b)))
	var gid abi.GIDEntry
	require.NoError(c.t, gid.Parse(b))
	assert.Equal(c.t, abi.GIDEntry{GID: r.info.GID, Port: 1}, gid)
}

func (c *client) query(h uint64, mask uint32) (r abi.QueryQPResp) {
	c.t.Helper()
	cmd := abi.QueryQP{Handle: uint32(h), Mask: mask}
	resp := make([]byte, abi.QueryQPRespLen)
	require.NoError(c.t, c.command(abi.CmdQueryQP, cmd.Append(nil), resp, nil))
	require.NoError(c.t, r.Parse(resp))
	return r
}

// mapQueues maps all that a completion queue and a queue pair have, as libefa does.
// The first three may be read.
func (c *client) mapQueues(cq *cqMade, qp *qpMade) (maps [][]byte) {
	c.t.Helper()
	page := unix.Getpagesize()
	llq := (int(qp.cmd.SQSize+qp.LLQOff) + page - 1) &^ (page - 1)
	for _, m := range []struct {
		key    uint64
		length int
		prot   int
	}{
		{cq.Key, int(cq.Size), unix.PROT_READ},
		{qp.RQKey, int(qp.RQSize), unix.PROT_WRITE},
		{qp.LLQKey, llq, unix.PROT_WRITE},
		{cq.DoorbellKey, page, unix.PROT_WRITE},
		{qp.RQDoorbellKey, page, unix.PROT_WRITE},
		{qp.SQDoorbellKey, page, unix.PROT_WRITE},
	} {
		b, err := c.f.Mmap(int64(m.key), m.length, m.prot, unix.MAP_SHARED)
		require.NoError(c.t, err)
		maps = append(maps, b)
	}
	return maps
}

// A program that ends leaves nothing behind; and as long as a mapping is left, all
// of its objects are.
func TestExit(t *testing.T) {
	before := descriptors(t)
	r := newRig(t, profile.Default())
	c := r.ready(t)
	pd := must(c.pd())
	_ = must(c.mr(pd, abi.AccessLocalWrite))
	ch := c.channel()
	cq := must(c.createCQ(r, cqWant{cmd: abi.CreateCQ{Flags: abi.CQChannel}, more: []attr{obj(abi.CreateCQChannel, uint64(ch))}}))
	qp := must(c.createQP(pd, cq.handle, cq.handle, qpWant{}))
	maps := c.mapQueues(&cq, &qp)
	c.bring(qp.handle, abi.QPRTS)
	_, _, err := c.ah(pd, r.info.GID)
	require.NoError(t, err)
	require.NoError(t, unix.Close(ch))

	live := r.Stats()
	c.close()
	require.ErrorIs(t, c.f.Close(), unix.EBADF)
	assert.ErrorIs(t, c.f.Ioctl(abi.IoctlVerbs, nil), unix.EBADF)
	for _, b := range maps {
		assert.Equal(t, live, r.Stats(), "a mapping keeps all")
		require.NoError(t, c.f.Munmap(b))
	}
	assert.Equal(t, kernel.Stats{}, r.Stats())
	assert.Equal(t, before, descriptors(t))
}

// Two programs share a device, and see nothing of each other's objects.
func TestTwoContexts(t *testing.T) {
	r := newRig(t, profile.Default())
	a, b := r.ready(t), r.ready(t)
	pd := must(a.pd())
	assert.ErrorIs(t, b.destroy(abi.ObjectPD, pd), unix.ENOENT)
	assert.Equal(t, pd, must(b.pd()), "handles count from the same number")
	cqA, cqB := must(a.createCQ(r, cqWant{})), must(b.createCQ(r, cqWant{}))
	qpA := must(a.createQP(pd, cqA.handle, cqA.handle, qpWant{}))
	qpB := must(b.createQP(pd, cqB.handle, cqB.handle, qpWant{}))
	assert.NotEqual(t, qpA.number, qpB.number)
	a.close()
	b.bring(qpB.handle, abi.QPRTS)
	b.close()
}

// Many threads of a program make and destroy, map and unmap, until one closes.
func TestThreads(t *testing.T) {
	r := newRig(t, profile.Default())
	c := r.ready(t)
	var wg sync.WaitGroup
	for i := range 4 {
		page, err := unix.Mmap(-1, 0, 64<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		require.NoError(t, err)
		mine := &client{t: t, f: c.f, page: page}
		wg.Go(func() {
			defer unix.Munmap(page)
			for n := range 200 {
				cq, err := mine.createCQ(r, cqWant{})
				if err != nil {
					assert.Equal(t, unix.EBADF, err)
					return
				}
				ring, mapErr := c.f.Mmap(int64(cq.Key), int(cq.Size), unix.PROT_READ, unix.MAP_SHARED)
				if i == 0 && n == 150 {
					assert.NoError(t, c.f.Close())
				}
				_ = mine.destroy(abi.ObjectCQ, cq.handle)
				if mapErr == nil {
					assert.NoError(t, c.f.Munmap(ring))
				}
			}
		})
	}
	wg.Wait()
	assert.Equal(t, kernel.Stats{}, r.Stats())
}

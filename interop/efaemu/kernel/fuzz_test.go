//go:build linux

package kernel_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/kernel"
)

// FuzzIoctl makes calls of any bytes. The only result is an errno, and closing the
// context frees all objects made.
func FuzzIoctl(f *testing.F) {
	for _, m := range known {
		f.Add(uint64(m.object), []byte{24, 0, byte(m.object), 0, byte(m.method), 0, 0, 0})
	}
	f.Fuzz(func(t *testing.T, seed uint64, raw []byte) {
		p := newProgram(t, "small")
		rng := rand.New(rand.NewPCG(seed, 1))
		for len(raw) > 0 { // bytes as they are, after half of a header that is right
			h := abi.Header{Driver: abi.DriverEFA}
			copy(h.Append(p.page[:0])[8:], raw)
			n := copy(p.page[:4096], raw)
			raw = raw[n:]
			p.ctx.Ioctl(p, abi.IoctlVerbs, p.at(0))
		}
		for range 50 { // and calls that are nearly right
			p.try(rng)
		}
	})
}

// known are methods with the attributes that they take, and the bytes that are in
// place for each: below 0 of an output, 0 for a handle or a descriptor.
var known = []struct {
	object, method uint16
	ids            []uint16
	sizes          []int
}{
	{abi.ObjectDevice, abi.DeviceInvokeWrite, []uint16{2, 0, 1}, []int{8, 112, -304}},
	{abi.ObjectDevice, abi.DeviceInvokeWrite, []uint16{2, 0, 1}, []int{8, 56, -128}},
	{abi.ObjectDevice, abi.DeviceInvokeWrite, []uint16{2, 0, 1}, []int{8, 40, -12}},
	{abi.ObjectDevice, abi.DeviceInvokeWrite, []uint16{2, 0, 1}, []int{8, 16, -128}},
	{abi.ObjectDevice, abi.DeviceInvokeWrite, []uint16{2, 0, 1}, []int{8, 8, -4}},
	{abi.ObjectDevice, abi.DeviceQueryPort, []uint16{0, 1}, []int{8, -48}},
	{abi.ObjectDevice, abi.DeviceGetContext, []uint16{0, 1}, []int{-4, -8}},
	{abi.ObjectDevice, abi.DeviceQueryGIDEntry, []uint16{0, 1, 2, 3}, []int{8, 8, 4, -32}},
	{abi.ObjectPD, abi.PDDestroy, []uint16{0}, []int{0}},
	{abi.ObjectCQ, abi.CQCreate, []uint16{0, 1, 2, 4, 6}, []int{0, 4, 8, 4, -4}},
	{abi.ObjectCQ, abi.CQCreate, []uint16{0, 1, 2, 3, 4, 5, 6, 7}, []int{0, 4, 8, 0, 4, 4, -4, 0}},
	{abi.ObjectCQ, abi.CQDestroy, []uint16{0, 1}, []int{0, -8}},
	{
		abi.ObjectQP, abi.QPCreate,
		[]uint16{0, 2, 4, 5, 7, 8, 9, 10, 13, 14},
		[]int{0, 0, 0, 0, 8, 20, 8, 4, -20, -4},
	},
	{abi.ObjectQP, abi.QPDestroy, []uint16{0, 1}, []int{0, -4}},
	{abi.ObjectAH, abi.AHDestroy, []uint16{0}, []int{0}},
	{abi.ObjectMR, abi.MRDestroy, []uint16{0}, []int{0}},
	{abi.ObjectMR, abi.MRRegDMABuf, []uint16{0, 1, 2, 3, 4, 5, 6, 7, 8}, []int{0, 0, 8, 8, 8, 4, 4, -4, -4}},
	{abi.ObjectAsyncEvent, abi.AsyncEventAlloc, []uint16{0}, []int{0}},
}

// try makes a call that is random in its details.
func (p *program) try(rng *rand.Rand) unix.Errno {
	pick := func(of ...uint64) uint64 { return of[rng.IntN(len(of))] }
	m := known[rng.IntN(len(known))]
	var attrs []abi.Attr
	for i, id := range m.ids {
		n := m.sizes[i]
		a := abi.Attr{ID: id, Len: uint16(max(n, -n)), Flags: uint16(rng.IntN(2))}
		switch {
		case m.method == abi.DeviceInvokeWrite && m.object == abi.ObjectDevice && id == abi.InvokeWriteCmd:
			a.Data = pick(1, 0x80000001, 3, 3, 5, 5, 9, 9, 17, 25, 26, 26)
		case n == 0 && len(p.fds) > 0 && rng.IntN(4) == 0:
			a.Data = uint64(p.fds[rng.IntN(len(p.fds))])
		case n == 0 && m.object == abi.ObjectQP && m.method == abi.QPCreate && rng.IntN(8) > 0:
			a.Data = p.lastCQ
			if id == abi.CreateQPPD {
				a.Data = p.lastPD
			}
		case n == 0:
			a.Data = pick(0, 0, 1, 1, 2, 3, 4, 5)
		case n < 0:
			a.Data = p.at(12288)
		case n > 8:
			a.Data = p.at(8192)
		default:
			a.Data = pick(0, 0, 0, 1, 1, 16, 64, 255)
		}
		if id == abi.CreateQPType && rng.IntN(4) > 0 {
			a.Data = abi.QPTypeDriver
		}
		switch rng.IntN(40) {
		case 0:
			continue
		case 1:
			a.Len = uint16(pick(0, 4, 8, 16, 24, 0xffff))
		case 2:
			a.Data = pick(8, 1<<40, ^uint64(0), p.at(0))
		case 3:
			a.Selector = 1
		}
		attrs = append(attrs, a)
	}
	uhw := pick(0, 0, 0, 16, 24)
	if m.object != abi.ObjectDevice {
		uhw = pick(0, 16, 16, 16, 24)
	}
	attrs = append(attrs, abi.Attr{ID: abi.AttrUHWIn, Len: uint16(uhw), Data: p.at(8192 + 256)},
		abi.Attr{ID: abi.AttrUHWOut, Len: uint16(pick(0, 64)), Data: p.at(12288 + 1024)})
	p.scribble(rng, m.object)
	before := p.dev.Stats()
	e := p.call(m.object, m.method, attrs...)
	if p.dev.Stats().PDs > before.PDs {
		p.lastPD = uint64(le.Uint32(p.page[12288:]))
	}
	if p.dev.Stats().CQs > before.CQs {
		p.lastCQ = le.Uint64(p.page[abi.HeaderLen+abi.AttrDataOff:])
	}
	return e
}

// scribble fills what calls point to with numbers that may mean something.
func (p *program) scribble(rng *rand.Rand, object uint16) {
	words := p.page[8192:12288]
	for i := 0; i+4 <= len(words); i += 4 {
		v := [...]uint32{0, 0, 0, 1, 1, 2, 16, 16, 64, 256, 1024, rng.Uint32()}
		le.PutUint32(words[i:], v[rng.IntN(len(v))])
	}
	what := rng.IntN(6)
	if object == abi.ObjectQP {
		what = 4
	}
	switch what {
	case 1:
		m := abi.RegMR{Start: p.at(0), IOVA: p.at(0), Length: uint64(rng.IntN(70000)), PD: uint32(p.lastPD), Access: uint32(rng.IntN(8))}
		m.Append(words[:0])
	case 2:
		m := abi.CreateAH{PD: uint32(p.lastPD), GID: [16]byte{byte(rng.IntN(4))}, IsGlobal: 1, Port: 1}
		m.Append(words[:0])
	case 3:
		m := abi.ModifyQP{
			Handle: uint32(rng.IntN(8)), Mask: [...]uint32{0x71, 1, 0x10001, 0x10801}[rng.IntN(4)],
			State: abi.QPState(rng.IntN(7)), Port: 1,
		}
		m.Append(words[:0])
	case 4:
		m := abi.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 2, MaxRecvSGE: 1}
		m.Append(words[:0])
	case 5:
		clear(words[:512])
	}
	cq := abi.CreateCQ{EntrySize: 32, SubCQs: 1, Flags: uint8(rng.IntN(4))}
	cq.Append(words[256:256])
	if object == abi.ObjectQP {
		qp := abi.CreateQP{SQSize: 1024, RQSize: 256}
		qp.Append(words[256:256])
	}
}

// The same without fuzzing, which also counts that calls get through.
func TestRandomCalls(t *testing.T) {
	most, errnos := kernel.Stats{}, map[unix.Errno]int{}
	for seed := range uint64(12) {
		t.Run("", func(t *testing.T) {
			p := newProgram(t, "small")
			rng := rand.New(rand.NewPCG(seed, 2))
			for range 400 {
				errnos[p.try(rng)]++
				s := p.dev.Stats()
				most.PDs, most.MRs, most.AHs = max(most.PDs, s.PDs), max(most.MRs, s.MRs), max(most.AHs, s.AHs)
				most.CQs, most.QueuePairs = max(most.CQs, s.CQs), max(most.QueuePairs, s.QueuePairs)
				most.Channels, most.AsyncFiles = max(most.Channels, s.Channels), max(most.AsyncFiles, s.AsyncFiles)
			}
		})
	}
	assert.NotZero(t, most.PDs)
	assert.NotZero(t, most.MRs)
	assert.NotZero(t, most.AHs)
	assert.NotZero(t, most.CQs)
	assert.NotZero(t, most.QueuePairs)
	assert.NotZero(t, most.Channels)
	assert.NotZero(t, most.AsyncFiles)
	for _, e := range []unix.Errno{
		0, unix.EINVAL, unix.EFAULT, unix.EOPNOTSUPP, unix.ENOSPC, unix.ENOENT, unix.EBUSY, unix.EBADF,
	} {
		require.NotZero(t, errnos[e], "%v", e)
	}
	t.Log(most, errnos)
}

//go:build linux

package inproc_test

import (
	"encoding/binary"
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/engine"
	"github.com/efactor/efactor/interop/efaemu/finding"
	"github.com/efactor/efactor/interop/efaemu/inproc"
	"github.com/efactor/efactor/interop/efaemu/kernel"
	"github.com/efactor/efactor/interop/efaemu/profile"
	"github.com/efactor/efactor/runtime/clock"
)

var le = binary.LittleEndian

// rig is an emulated device on a simulated fabric.
type rig struct {
	*kernel.Device
	eng      *engine.Engine
	prof     profile.Profile
	info     device.Info
	findings *finding.Log
}

// newRig makes one; the test fails if it leaves objects or findings behind.
func newRig(t testing.TB, p profile.Profile) *rig {
	t.Helper()
	require.NoError(t, p.Validate())
	fab, err := sim.New(sim.Config{MaxSQ: 4096, MaxRQ: 32768})
	require.NoError(t, err)
	d, err := fab.OpenDevice(sim.DeviceConfig{RDMARead: p.RDMARead, RDMAWrite: p.RDMAWrite, UnsolicitedWrite: p.UnsolicitedWrite})
	require.NoError(t, err)
	p = p.Within(d.Info())
	log := new(finding.Log)
	eng := engine.New(engine.Config{Profile: p, Device: d, Clock: clock.System, Findings: log})
	r := &rig{
		Device:   kernel.New(kernel.Config{Engine: eng, Profile: p, Info: d.Info(), Findings: log}),
		eng:      eng,
		prof:     p,
		info:     d.Info(),
		findings: log,
	}
	t.Cleanup(func() {
		assert.Equal(t, kernel.Stats{}, r.Stats(), "left behind")
		found, _ := log.Take()
		assert.Empty(t, found)
		assert.NoError(t, d.Close())
	})
	return r
}

func named(t testing.TB, name string) profile.Profile {
	t.Helper()
	p, err := profile.Named(name)
	require.NoError(t, err)
	return p
}

// client is a program that uses the device: the ABI in the raw.
type client struct {
	t    testing.TB
	f    *inproc.File
	page []byte // a command and all that it points to
	bad  uint64 // an address where nothing is
}

func (r *rig) open(t testing.TB) *client {
	t.Helper()
	f, err := inproc.Open(r.Device)
	require.NoError(t, err)
	page, err := unix.Mmap(-1, 0, 64<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(page)) })
	return &client{t: t, f: f, page: page, bad: 8}
}

// ready is a client that has its context.
func (r *rig) ready(t testing.TB) *client {
	t.Helper()
	c := r.open(t)
	require.NoError(t, c.context(abi.CapTxBatch|abi.CapMinSQ, nil))
	return c
}

func (c *client) close() { require.NoError(c.t, c.f.Close()) }

// attr is an attribute and the memory it points to.
type attr struct {
	abi.Attr
	in   []byte
	out  []byte  // filled by the call
	made *uint64 // gets Data after the call
}

func in(id uint16, b []byte) attr {
	return attr{Attr: abi.Attr{ID: id, Len: uint16(len(b)), Flags: abi.FlagMandatory}, in: b}
}

func u32(id uint16, v uint32) attr { return in(id, le.AppendUint32(nil, v)) }
func u64(id uint16, v uint64) attr { return in(id, le.AppendUint64(nil, v)) }

func out(id uint16, b []byte) attr {
	return attr{Attr: abi.Attr{ID: id, Len: uint16(len(b)), Flags: abi.FlagMandatory}, out: b}
}

func obj(id uint16, h uint64) attr {
	return attr{Attr: abi.Attr{ID: id, Flags: abi.FlagMandatory, Data: h}}
}

// made is the handle or descriptor that a call makes: always the first attribute.
func made(h *uint64) attr { return attr{Attr: abi.Attr{Flags: abi.FlagMandatory}, made: h} }

// call makes an ioctl; nil or an errno.
func (c *client) call(object, method uint16, attrs ...attr) error {
	return c.callHeader(abi.Header{Object: object, Method: method, Driver: abi.DriverEFA}, attrs...)
}

// callHeader fills in the length and the number of attributes, unless they are set.
func (c *client) callHeader(h abi.Header, attrs ...attr) error {
	base := uint64(uintptr(unsafe.Pointer(&c.page[0])))
	if h.Attrs == 0 {
		h.Attrs = uint16(len(attrs))
	}
	if h.Length == 0 {
		h.Length = uint16(abi.HeaderLen + len(attrs)*abi.AttrLen)
	}
	b := h.Append(c.page[:0])
	at := 4096
	outs := make([]int, len(attrs))
	for i, a := range attrs {
		switch {
		case len(a.in) > abi.AttrInline:
			a.Data = base + uint64(at)
			at += copy(c.page[at:], a.in) + 8
		case a.in != nil:
			var v [8]byte
			copy(v[:], a.in)
			a.Data = le.Uint64(v[:])
		case a.out != nil:
			a.Data = base + uint64(at)
			outs[i] = at
			at += copy(c.page[at:], a.out) + 8
		}
		b = a.Append(b)
	}
	err := c.f.Ioctl(abi.IoctlVerbs, unsafe.Pointer(&c.page[0]))
	for i, a := range attrs {
		if outs[i] != 0 {
			copy(a.out, c.page[outs[i]:])
		}
		if a.made != nil {
			*a.made = le.Uint64(c.page[abi.HeaderLen+i*abi.AttrLen+abi.AttrDataOff:])
		}
	}
	return err
}

// command makes a write command with its core input and output and the driver's.
func (c *client) command(cmd uint32, core, resp, uhwOut []byte, more ...attr) error {
	attrs := []attr{u64(abi.InvokeWriteCmd, uint64(cmd))}
	if core != nil {
		attrs = append(attrs, in(abi.InvokeCoreIn, core))
	}
	if resp != nil {
		attrs = append(attrs, out(abi.InvokeCoreOut, resp))
	}
	if uhwOut != nil {
		attrs = append(attrs, out(abi.AttrUHWOut, uhwOut))
	}
	return c.call(abi.ObjectDevice, abi.DeviceInvokeWrite, append(attrs, more...)...)
}

func (c *client) context(caps uint32, resp *abi.ContextResp) error {
	cmd := abi.ContextCmd{Caps: caps}
	b := make([]byte, abi.ContextRespLen)
	err := c.call(abi.ObjectDevice, abi.DeviceGetContext,
		out(abi.ContextCompVectors, make([]byte, 4)), out(abi.ContextCoreSupport, make([]byte, 8)),
		in(abi.AttrUHWIn, cmd.Append(nil)), out(abi.AttrUHWOut, b))
	if err == nil && resp != nil {
		require.NoError(c.t, resp.Parse(b))
	}
	return err
}

func (c *client) pd() (h uint64, err error) {
	resp := make([]byte, 4)
	err = c.command(abi.CmdAllocPD, make([]byte, abi.WriteCmdLen), resp, make([]byte, abi.AllocPDRespLen))
	return uint64(le.Uint32(resp)), err
}

// memory is a page-aligned piece of the client's memory.
func (c *client) memory() []byte { return c.page[32<<10:] }

func addr(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }

func (c *client) reg(m abi.RegMR) (r abi.RegMRResp, err error) {
	resp := make([]byte, abi.RegMRRespLen)
	err = c.command(abi.CmdRegMR, m.Append(nil), resp, nil)
	require.NoError(c.t, r.Parse(resp))
	return r, err
}

// mr registers the client's memory.
func (c *client) mr(pd uint64, access uint32) (r abi.RegMRResp, err error) {
	m := c.memory()
	return c.reg(abi.RegMR{Start: addr(m), Length: uint64(len(m)), IOVA: addr(m), PD: uint32(pd), Access: access})
}

func (c *client) channel() (fd int) {
	c.t.Helper()
	resp := make([]byte, 4)
	require.NoError(c.t, c.command(abi.CmdCompChannel, make([]byte, abi.WriteCmdLen), resp, nil))
	return int(le.Uint32(resp))
}

func (c *client) async() (fd int) {
	c.t.Helper()
	var h uint64
	require.NoError(c.t, c.call(abi.ObjectAsyncEvent, abi.AsyncEventAlloc, made(&h)))
	return int(h)
}

// cqWant are the arguments of createCQ; the zero value is the common one.
type cqWant struct {
	entries    uint32 // 0: 64
	userHandle uint64
	vector     uint32
	cmd        abi.CreateCQ // EntrySize 0: 32; SubCQs 0: those of the profile
	more       []attr
}

type cqMade struct {
	handle  uint64
	entries uint32
	abi.CreateCQResp
}

func (c *client) createCQ(r *rig, w cqWant) (m cqMade, err error) {
	if w.entries == 0 {
		w.entries = 64
	}
	if w.cmd.EntrySize == 0 {
		w.cmd.EntrySize = 32
	}
	if w.cmd.SubCQs == 0 {
		w.cmd.SubCQs = r.prof.SubCQs
	}
	depth, uhw := make([]byte, 4), make([]byte, abi.CreateCQRespLen)
	err = c.call(abi.ObjectCQ, abi.CQCreate, append([]attr{
		made(&m.handle), out(abi.CreateCQRespDepth, depth),
		u32(abi.CreateCQEntries, w.entries), u64(abi.CreateCQUserHandle, w.userHandle),
		u32(abi.CreateCQVector, w.vector), in(abi.AttrUHWIn, w.cmd.Append(nil)), out(abi.AttrUHWOut, uhw),
	}, w.more...)...)
	m.entries = le.Uint32(depth)
	require.NoError(c.t, m.Parse(uhw))
	return m, err
}

// qpWant are the arguments of createQP; the zero value is the common one.
type qpWant struct {
	kind   uint64     // 0: driver
	caps   *abi.QPCap // nil: 16, 16, 2, 1, 0
	cmd    *abi.CreateQP
	cmdLen int // 0: the length that the kernel knows
	skip   uint16
	more   []attr
}

type qpMade struct {
	handle uint64
	number uint32
	cmd    abi.CreateQP
	abi.CreateQPResp
}

func (c *client) createQP(pd, send, recv uint64, w qpWant) (m qpMade, err error) {
	if w.kind == 0 {
		w.kind = abi.QPTypeDriver
	}
	if w.caps == nil {
		w.caps = &abi.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 2, MaxRecvSGE: 1}
	}
	if w.cmd == nil {
		w.cmd = &abi.CreateQP{SQSize: 16 * 64, RQSize: 16 * 16}
	}
	if w.cmdLen == 0 {
		w.cmdLen = abi.CreateQPLen61
	}
	m.cmd = *w.cmd
	number, uhw := make([]byte, 4), make([]byte, abi.CreateQPRespLen)
	uhwIn := append(w.cmd.Append(nil), make([]byte, 64)...)[:w.cmdLen]
	attrs := []attr{
		made(&m.handle), obj(abi.CreateQPPD, pd),
		obj(abi.CreateQPSendCQ, send), obj(abi.CreateQPRecvCQ, recv), u64(abi.CreateQPUserHandle, 7),
		in(abi.CreateQPCaps, w.caps.Append(nil)), u64(abi.CreateQPType, w.kind),
		out(abi.CreateQPRespCaps, make([]byte, abi.QPCapLen)), out(abi.CreateQPRespNumber, number),
		in(abi.AttrUHWIn, uhwIn), out(abi.AttrUHWOut, uhw),
	}
	for i, a := range attrs {
		if w.skip != 0 && a.ID == w.skip {
			attrs = append(attrs[:i:i], attrs[i+1:]...)
			break
		}
	}
	err = c.call(abi.ObjectQP, abi.QPCreate, append(attrs, w.more...)...)
	m.number = le.Uint32(number)
	require.NoError(c.t, m.Parse(uhw))
	return m, err
}

func (c *client) modify(m abi.ModifyQP) error {
	return c.command(abi.CmdModifyQP, m.Append(nil), nil, nil)
}

// The usual way of a queue pair.
func toInit(h uint64, qkey uint32) abi.ModifyQP {
	return abi.ModifyQP{Handle: uint32(h), Mask: 0x71, State: abi.QPInit, Port: 1, QKey: qkey}
}

func toRTR(h uint64) abi.ModifyQP {
	return abi.ModifyQP{Handle: uint32(h), Mask: abi.AttrState, State: abi.QPRTR}
}

func toRTS(h uint64) abi.ModifyQP {
	return abi.ModifyQP{Handle: uint32(h), Mask: 0x10001, State: abi.QPRTS}
}

// bring moves a queue pair to a state.
func (c *client) bring(h uint64, to abi.QPState) {
	c.t.Helper()
	way := []abi.ModifyQP{toInit(h, 1), toRTR(h), toRTS(h)}
	switch to {
	case abi.QPSQD, abi.QPError:
		way = append(way, abi.ModifyQP{Handle: uint32(h), Mask: abi.AttrState, State: to})
	default:
		way = way[:to]
	}
	for _, m := range way {
		require.NoError(c.t, c.modify(m))
	}
}

func (c *client) ah(pd uint64, gid device.GID) (h uint64, r abi.CreateAHResp, err error) {
	return c.createAH(abi.CreateAH{PD: uint32(pd), GID: gid, IsGlobal: 1, Port: 1})
}

func (c *client) createAH(m abi.CreateAH) (h uint64, r abi.CreateAHResp, err error) {
	resp, uhw := make([]byte, 4), make([]byte, abi.CreateAHRespLen)
	err = c.command(abi.CmdCreateAH, m.Append(nil), resp, uhw)
	require.NoError(c.t, r.Parse(uhw))
	return uint64(le.Uint32(resp)), r, err
}

func (c *client) destroy(object uint16, h uint64) error {
	switch object {
	case abi.ObjectCQ:
		_, err := c.destroyCQ(h)
		return err
	case abi.ObjectQP:
		return c.call(object, abi.QPDestroy, obj(abi.DestroyHandle, h), out(abi.DestroyResp, make([]byte, 4)))
	case abi.ObjectMR:
		return c.call(object, abi.MRDestroy, obj(abi.DestroyHandle, h))
	default:
		return c.call(object, 0, obj(abi.DestroyHandle, h))
	}
}

func (c *client) destroyCQ(h uint64) (r abi.DestroyCQResp, err error) {
	resp := make([]byte, abi.DestroyCQRespLen)
	err = c.call(abi.ObjectCQ, abi.CQDestroy, obj(abi.DestroyHandle, h), out(abi.DestroyResp, resp))
	require.NoError(c.t, r.Parse(resp))
	return r, err
}

// must is a value without its error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// descriptors are how many this process has open.
func descriptors(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(all)
}

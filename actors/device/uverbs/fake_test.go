//go:build linux

package uverbs

import (
	"os"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// fake is a kernel with a card that does nothing by itself: the test fills its rings, and
// changes its answers to what cannot be. The emulator (interop/efaemu) is the card that works.
type fake struct {
	OS
	t testing.TB

	limits  abi.ContextResp
	vectors uint32
	core    abi.DeviceAttr
	efa     abi.DeviceResp
	port    abi.PortAttr
	gid     abi.GIDEntry
	mr      abi.RegMRResp
	cq      abi.CreateCQResp
	depth   func(uint32) uint32
	number  uint32
	qp      abi.CreateQPResp
	ah      func() uint16
	fd      func(fd int) uint64

	last    uint32            // handle
	entries int               // of the last completion queue
	mem     map[int64][]byte  // what was mapped, by key
	pipes   map[string]int    // write ends of the channel and of asynchronous events
	objects map[uint16]int    // by kind
	methods map[[2]uint16]int // ioctls by object and method
}

// Keys of mappings.
const (
	keyCQ = iota << 24
	keyCQBell
	keyRQ
	keyRQBell
	keyLLQ
	keySQBell
)

const fakeQPN = 0x4321

func newFake(t testing.TB) *fake {
	f := &fake{
		t:       t,
		limits:  abi.ContextResp{Udata: abi.UdataCreateAH, SubCQs: 1, Inline: 32, MaxLLQ: 64 << 10, InlineEx: 80},
		vectors: 2,
		core:    abi.DeviceAttr{PartID: 0xefa2, MaxQP: 8, MaxCQE: 4096},
		efa: abi.DeviceResp{
			MaxSQ: 256, MaxRQ: 1024, MaxSGESQ: 2, MaxSGERQ: 1, MaxRDMA: 1 << 30,
			Caps: abi.DeviceRDMARead | abi.DeviceRDMAWrite | abi.DeviceRNRRetry | abi.DeviceNotify | abi.DeviceSGID,
		},
		port:   abi.PortAttr{MaxMsg: 8928, State: abi.PortActive},
		gid:    abi.GIDEntry{GID: [16]byte{0xfe, 0x80, 15: 7}},
		mr:     abi.RegMRResp{LKey: 0xff_123456, RKey: 0xabcdef01},
		cq:     abi.CreateCQResp{CompMask: abi.CQHasDoorbell, Key: keyCQ, DoorbellOff: 0x40, DoorbellKey: keyCQBell},
		depth:  func(n uint32) uint32 { return n },
		number: fakeQPN,
		qp: abi.CreateQPResp{
			RQDoorbellOff: 0x10, SQDoorbellOff: 0x20, LLQOff: 64, RQKey: keyRQ, RQDoorbellKey: keyRQBell,
			SQDoorbellKey: keySQBell, LLQKey: keyLLQ,
		},
		mem: map[int64][]byte{}, pipes: map[string]int{}, objects: map[uint16]int{}, methods: map[[2]uint16]int{},
		fd: func(fd int) uint64 { return uint64(fd) },
	}
	next := uint16(0x10)
	f.ah = func() uint16 { next++; return next }
	t.Cleanup(func() {
		for _, fd := range f.pipes {
			_ = unix.Close(fd)
		}
	})
	return f
}

// Open implements Kernel.
func (f *fake) Open(string) (File, error) { return f, nil }

// Mmap implements File.
func (f *fake) Mmap(key int64, length, prot, flags int) ([]byte, error) {
	require.Equal(f.t, unix.MAP_SHARED, flags)
	want := unix.PROT_WRITE
	if key == keyCQ {
		want = unix.PROT_READ
	}
	require.Equal(f.t, want, prot)
	b, err := unix.Mmap(-1, 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	f.mem[key] = b
	return b, err
}

// Munmap implements File.
func (f *fake) Munmap(b []byte) error { return unix.Munmap(b) }

// Close implements File.
func (f *fake) Close() error { return nil }

// Ioctl implements File.
func (f *fake) Ioctl(cmd uint64, arg unsafe.Pointer) error {
	require.EqualValues(f.t, abi.IoctlVerbs, cmd)
	page := unsafe.Slice((*byte)(arg), pageLen)
	var head abi.Header
	require.NoError(f.t, head.Parse(page))
	require.True(f.t, head.Whole())
	require.EqualValues(f.t, abi.DriverEFA, head.Driver)
	attrs, err := abi.ParseAttrs(nil, page[abi.HeaderLen:], int(head.Attrs))
	require.NoError(f.t, err)
	f.methods[[2]uint16{head.Object, head.Method}]++
	c := &fakeCall{f: f, page: page, attrs: attrs}
	return c.answer(head.Object, head.Method)
}

// fakeCall is one ioctl.
type fakeCall struct {
	f     *fake
	page  []byte
	attrs []abi.Attr
}

// attr finds an attribute, and where its data is in the header.
func (c *fakeCall) attr(id uint16) (a *abi.Attr, data []byte) {
	for i := range c.attrs {
		if c.attrs[i].ID == id {
			return &c.attrs[i], c.page[abi.HeaderLen+i*abi.AttrLen+abi.AttrDataOff:]
		}
	}
	c.f.t.Fatalf("no attribute %#x", id)
	return nil, nil
}

// out answers in an attribute.
func (c *fakeCall) out(id uint16, b []byte) {
	a, _ := c.attr(id)
	require.EqualValues(c.f.t, len(b), a.Len)
	copy(c.page[a.Data-addressOf(c.page):], b)
}

func (c *fakeCall) outU32(id uint16, v uint32) { c.out(id, le.AppendUint32(nil, v)) }

// made answers with a new object.
func (c *fakeCall) made(object, id uint16) {
	c.f.last++
	c.f.objects[object]++
	_, data := c.attr(id)
	le.PutUint64(data, uint64(c.f.last))
}

func (c *fakeCall) answer(object, method uint16) error {
	f := c.f
	switch [2]uint16{object, method} {
	case [2]uint16{abi.ObjectDevice, abi.DeviceGetContext}:
		c.outU32(abi.ContextCompVectors, f.vectors)
		c.out(abi.AttrUHWOut, f.limits.Append(nil))
	case [2]uint16{abi.ObjectDevice, abi.DeviceQueryPort}:
		c.out(abi.QueryPortResp, f.port.Append(nil))
	case [2]uint16{abi.ObjectDevice, abi.DeviceQueryGIDEntry}:
		c.out(abi.GIDEntryResp, f.gid.Append(nil))
	case [2]uint16{abi.ObjectDevice, abi.DeviceInvokeWrite}:
		cmd, _ := c.attr(abi.InvokeWriteCmd)
		return c.write(uint32(cmd.Data))
	case [2]uint16{abi.ObjectAsyncEvent, abi.AsyncEventAlloc}:
		_, data := c.attr(abi.AsyncEventFD)
		le.PutUint64(data, f.fd(f.pipe("async")))
	case [2]uint16{abi.ObjectCQ, abi.CQCreate}:
		n, _ := c.attr(abi.CreateCQEntries)
		resp := f.cq
		f.entries = int(n.Data)
		if resp.Size == 0 {
			resp.Size = pageAlign(n.Data * abi.WideCQELen * uint64(f.limits.SubCQs))
		}
		c.made(object, abi.CreateCQHandle)
		c.outU32(abi.CreateCQRespDepth, f.depth(uint32(n.Data)))
		c.out(abi.AttrUHWOut, resp.Append(nil))
	case [2]uint16{abi.ObjectQP, abi.QPCreate}:
		resp := f.qp
		if resp.RQSize == 0 {
			resp.RQSize = 1 << 16
		}
		c.made(object, abi.CreateQPHandle)
		c.outU32(abi.CreateQPRespNumber, f.number)
		c.out(abi.AttrUHWOut, resp.Append(nil))
	default: // an object is destroyed
		f.objects[object]--
	}
	return nil
}

func (c *fakeCall) write(cmd uint32) error {
	f := c.f
	switch cmd {
	case abi.CmdQueryDeviceEx:
		c.out(abi.InvokeCoreOut, f.core.Append(nil))
		c.out(abi.AttrUHWOut, f.efa.Append(nil))
	case abi.CmdAllocPD:
		f.objects[abi.ObjectPD]++
		c.outU32(abi.InvokeCoreOut, 0)
	case abi.CmdRegMR:
		f.objects[abi.ObjectMR]++
		c.out(abi.InvokeCoreOut, f.mr.Append(nil))
	case abi.CmdCompChannel:
		c.outU32(abi.InvokeCoreOut, uint32(f.fd(f.pipe("channel"))))
	case abi.CmdCreateAH:
		f.objects[abi.ObjectAH]++
		c.outU32(abi.InvokeCoreOut, 1)
		resp := abi.CreateAHResp{Number: f.ah()}
		c.out(abi.AttrUHWOut, resp.Append(nil))
	case abi.CmdModifyQP:
	default:
		return unix.EOPNOTSUPP
	}
	return nil
}

// pipe makes a descriptor for events.
func (f *fake) pipe(name string) int {
	var p [2]int
	require.NoError(f.t, unix.Pipe2(p[:], unix.O_CLOEXEC))
	f.pipes[name] = p[1]
	return p[0]
}

// event writes an event.
func (f *fake) event(name string, record []byte) {
	_, err := unix.Write(f.pipes[name], record)
	require.NoError(f.t, err)
}

// bell is a doorbell's word.
func (f *fake) bell(key int64, off uint32) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&f.mem[key][off]))
}

// complete writes the completion of count n. That of a send has bits above the id, as a
// card may leave them in a queue of short ids.
func (f *fake) complete(n int, e abi.CQE) {
	entries := f.entries
	if e.Queue == abi.SendQueue {
		e.ReqID |= 0xf00d_cafe_beef << 16
	}
	e.Phase = n/entries%2 == 0
	at := n % entries * abi.WideCQELen
	e.Append(f.mem[keyCQ][at:at], abi.WideCQELen)
}

// wqe is the WQE with count n in the card's ring.
func (f *fake) wqe(q *QP, n int) abi.WQE {
	at := int(f.qp.LLQOff) + n%q.sq.shape.sq*q.sq.shape.wqe
	var w abi.WQE
	require.NoError(f.t, w.Parse(f.mem[keyLLQ][at:at+q.sq.shape.wqe]))
	return w
}

// open opens a queue pair on the fake, with an address handle.
func (f *fake) open(cfg device.QPConfig) (*Device, *QP, device.AH) {
	f.t.Helper()
	d, err := Open(Config{Path: os.DevNull, Kernel: f})
	require.NoError(f.t, err)
	qp, err := d.OpenQP(cfg)
	require.NoError(f.t, err)
	ah, err := qp.CreateAH(device.GID{1})
	require.NoError(f.t, err)
	return d.(*Device), qp.(*QP), ah
}

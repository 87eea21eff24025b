//go:build linux

package kernel_test

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/engine"
	"github.com/efactor/efactor/interop/efaemu/finding"
	"github.com/efactor/efactor/interop/efaemu/kernel"
	"github.com/efactor/efactor/interop/efaemu/memory"
	"github.com/efactor/efactor/interop/efaemu/profile"
	"github.com/efactor/efactor/runtime/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var le = binary.LittleEndian

// program is a task of this process that notes the descriptors it gets, and reports
// its mappings as a test needs.
type program struct {
	t     testing.TB
	dev   *kernel.Device
	ctx   *kernel.Context
	log   *finding.Log
	page  []byte // a command, and from 8192 on the memory it points to
	fds   []int
	maps  []kernel.Mapping
	space memory.Space
	full  bool // no descriptor is free

	lastPD, lastCQ uint64 // handles, of random calls
}

func (p *program) Space() memory.Space { return p.space }

func (p *program) InstallFD(fd int, cloexec bool) (int, error) {
	assert.True(p.t, cloexec)
	if p.full {
		return 0, unix.EMFILE
	}
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		p.fds = append(p.fds, n)
	}
	return n, err
}

func (p *program) StatFD(fd int) (dev, ino uint64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, 0, err
	}
	return st.Dev, st.Ino, nil
}

func (p *program) GetFD(fd int) (int, error) {
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
}

func (p *program) Maps() ([]kernel.Mapping, error) { return p.maps, nil }

// fenced is the part of this process that is the program's: calls of random bytes
// write anywhere.
type fenced struct {
	memory.Space
	start, n uint64
}

func (f fenced) has(p []byte, addr uint64) bool {
	return addr >= f.start && addr-f.start <= f.n && uint64(len(p)) <= f.n-(addr-f.start)
}

func (f fenced) ReadAt(p []byte, addr uint64) error {
	if !f.has(p, addr) {
		return memory.ErrFault
	}
	return f.Space.ReadAt(p, addr)
}

func (f fenced) WriteAt(p []byte, addr uint64) error {
	if !f.has(p, addr) {
		return memory.ErrFault
	}
	return f.Space.WriteAt(p, addr)
}

// newProgram opens a device of its own and gets its context.
func newProgram(t testing.TB, name string) *program {
	t.Helper()
	prof, err := profile.Named(name)
	require.NoError(t, err)
	fab, err := sim.New(sim.Config{})
	require.NoError(t, err)
	d, err := fab.OpenDevice(sim.DeviceConfig{RDMARead: true, RDMAWrite: true})
	require.NoError(t, err)
	prof = prof.Within(d.Info())
	p := &program{t: t, log: new(finding.Log)}
	eng := engine.New(engine.Config{Profile: prof, Device: d, Clock: clock.System, Findings: p.log})
	p.dev = kernel.New(kernel.Config{Engine: eng, Profile: prof, Info: d.Info(), Findings: p.log})
	p.ctx, err = p.dev.Open("uverbs0.test")
	require.NoError(t, err)
	p.page, err = unix.Mmap(-1, 0, 64<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	p.space = fenced{memory.Self(), p.at(0), uint64(len(p.page))}
	t.Cleanup(func() {
		p.ctx.Close()
		p.ctx.Close()
		assert.Equal(t, kernel.Stats{}, p.dev.Stats())
		for _, fd := range p.fds {
			_ = unix.Close(fd)
		}
		assert.NoError(t, unix.Munmap(p.page))
		assert.NoError(t, d.Close())
	})
	cmd := abi.ContextCmd{Caps: 3}
	require.Zero(t, p.call(abi.ObjectDevice, abi.DeviceGetContext,
		abi.Attr{ID: abi.AttrUHWIn, Len: 8, Data: le.Uint64(cmd.Append(nil))}))
	return p
}

// at is the address of the page's byte n.
func (p *program) at(n int) uint64 { return uint64(uintptr(unsafe.Pointer(&p.page[n]))) }

// call makes an ioctl.
func (p *program) call(object, method uint16, attrs ...abi.Attr) unix.Errno {
	h := abi.Header{
		Object: object, Method: method, Driver: abi.DriverEFA,
		Attrs: uint16(len(attrs)), Length: uint16(abi.HeaderLen + len(attrs)*abi.AttrLen),
	}
	b := h.Append(p.page[:0])
	for i := range attrs {
		b = attrs[i].Append(b)
	}
	return p.ctx.Ioctl(p, abi.IoctlVerbs, p.at(0))
}

// command makes a write command with the core's input at 8192, its output at 12288,
// and the driver's behind each.
func (p *program) command(cmd uint64, in, out uint16) unix.Errno {
	return p.call(abi.ObjectDevice, abi.DeviceInvokeWrite,
		abi.Attr{ID: abi.InvokeWriteCmd, Len: 8, Data: cmd},
		abi.Attr{ID: abi.InvokeCoreIn, Len: in, Data: p.at(8192)},
		abi.Attr{ID: abi.InvokeCoreOut, Len: out, Data: p.at(12288)},
		abi.Attr{ID: abi.AttrUHWOut, Len: 64, Data: p.at(12288 + 2048)})
}

func (p *program) pd() uint64 {
	p.t.Helper()
	clear(p.page[8192:12288])
	require.Zero(p.t, p.command(abi.CmdAllocPD, 8, 4))
	return uint64(le.Uint32(p.page[12288:]))
}

// cq makes a completion queue of 64 entries.
func (p *program) cq(userHandle uint64, channel int) (handle uint64, resp abi.CreateCQResp) {
	p.t.Helper()
	cmd := abi.CreateCQ{EntrySize: 32, SubCQs: 1}
	attrs := []abi.Attr{
		{ID: abi.CreateCQHandle},
		{ID: abi.CreateCQEntries, Len: 4, Data: 64},
		{ID: abi.CreateCQUserHandle, Len: 8, Data: userHandle},
		{ID: abi.CreateCQVector, Len: 4},
		{ID: abi.CreateCQRespDepth, Len: 4, Data: p.at(12288)},
		{ID: abi.AttrUHWIn, Len: 16, Data: p.at(8192)},
		{ID: abi.AttrUHWOut, Len: abi.CreateCQRespLen, Data: p.at(12288 + 64)},
	}
	if channel >= 0 {
		cmd.Flags = abi.CQChannel
		attrs = append(attrs, abi.Attr{ID: abi.CreateCQChannel, Data: uint64(channel)})
	}
	cmd.Append(p.page[8192:8192])
	require.Zero(p.t, p.call(abi.ObjectCQ, abi.CQCreate, attrs...))
	require.NoError(p.t, resp.Parse(p.page[12288+64:]))
	return le.Uint64(p.page[abi.HeaderLen+abi.AttrDataOff:]), resp
}

// destroyCQ returns how many events the program is said to have read.
func (p *program) destroyCQ(h uint64) uint32 {
	p.t.Helper()
	require.Zero(p.t, p.call(abi.ObjectCQ, abi.CQDestroy,
		abi.Attr{ID: abi.DestroyHandle, Data: h},
		abi.Attr{ID: abi.DestroyResp, Len: abi.DestroyCQRespLen, Data: p.at(12288)}))
	return le.Uint32(p.page[12288:])
}

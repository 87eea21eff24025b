//go:build linux

package uverbs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// errLies: the kernel or the device said what cannot be.
var errLies = errors.New("uverbs: the device says what cannot be")

// context is an open device file: what the device can do, and a protection domain.
type context struct {
	kernel Kernel
	file   File

	// What the device said when it was opened.
	limits  abi.ContextResp
	vectors uint32 // for the interrupts of completion queues
	core    abi.DeviceAttr
	efa     abi.DeviceResp
	mtu     int
	gid     device.GID
	pd      uint32

	unsolicited bool // writes with immediate data take no receive

	gone atomic.Bool // the device was taken away: what is freed is freed already

	mu        sync.Mutex
	cmd       *command
	abandoned [][]byte // memory that the device may still use
	held      [][]byte // the same, of callers': the garbage collector leaves it alone
}

// openContext opens a device file and does everything that comes before the first
// object of a user.
func openContext(k Kernel, path string) (c *context, err error) {
	c = &context{kernel: k}
	if c.cmd, err = newCommand(k); err != nil {
		return nil, err
	}
	if c.file, err = k.Open(path); err != nil {
		return nil, errors.Join(err, k.Unmap(c.cmd.page))
	}
	for _, step := range []func() error{c.handshake, c.query, c.queryPort, c.queryGID, c.allocPD} {
		if err := step(); err != nil {
			return nil, errors.Join(fmt.Errorf("uverbs: %s: %w", path, err), c.closeFile())
		}
	}
	return c, nil
}

// handshake tells the kernel what limits this driver heeds, and learns them.
func (c *context) handshake() error {
	in := abi.ContextCmd{Caps: abi.CapTxBatch | abi.CapMinSQ}
	c.cmd.begin(abi.ObjectDevice, abi.DeviceGetContext)
	vectors := c.cmd.out(abi.ContextCompVectors, 4)
	_ = c.cmd.out(abi.ContextCoreSupport, 8) // optional rights, which nobody asks for
	c.cmd.in(abi.AttrUHWIn, in.Append(nil))
	out := c.cmd.out(abi.AttrUHWOut, abi.ContextRespLen)
	if err := c.cmd.run(c.file); err != nil {
		return fmt.Errorf("get context: %w", err)
	}
	c.vectors = le.Uint32(vectors)
	r := &c.limits
	_ = r.Parse(out)
	switch {
	case r.Udata&abi.UdataCreateAH == 0:
		return fmt.Errorf("%w: the kernel gives no numbers of address handles: it is too old", device.ErrNotSupported)
	case r.SubCQs == 0 || r.SubCQs > maxSubCQs, r.MaxLLQ < abi.WQELen, int(r.Inline) > abi.MaxInline:
		return fmt.Errorf("%w: %+v", errLies, *r)
	}
	return nil
}

// maxSubCQs bounds the rings of a completion queue.
const maxSubCQs = 64

// query asks for the device's limits.
func (c *context) query() error {
	c.cmd.write(abi.CmdQueryDeviceEx, make([]byte, abi.ExCmdLen))
	core := c.cmd.out(abi.InvokeCoreOut, abi.DeviceAttrLen)
	out := c.cmd.out(abi.AttrUHWOut, abi.DeviceRespLen)
	if err := c.cmd.run(c.file); err != nil {
		return fmt.Errorf("query device: %w", err)
	}
	_, _ = c.core.Parse(core), c.efa.Parse(out)
	if c.efa.MaxSQ == 0 || c.efa.MaxRQ == 0 || c.efa.MaxSGESQ == 0 || c.efa.MaxSGERQ == 0 || c.core.MaxCQE == 0 {
		return fmt.Errorf("%w: %+v", errLies, c.efa)
	}
	return nil
}

func (c *context) queryPort() error {
	var port abi.PortAttr
	c.cmd.begin(abi.ObjectDevice, abi.DeviceQueryPort)
	c.cmd.u64(abi.QueryPortNumber, abi.PortNumber)
	out := c.cmd.out(abi.QueryPortResp, abi.PortAttrLen)
	if err := c.cmd.run(c.file); err != nil {
		return fmt.Errorf("query port: %w", err)
	}
	_ = port.Parse(out)
	if port.MaxMsg < minMTU || port.MaxMsg > maxMTU { // a descriptor has 16 bits for it
		return fmt.Errorf("%w: an MTU of %d bytes", errLies, port.MaxMsg)
	}
	if c.mtu = int(port.MaxMsg); port.State != abi.PortActive {
		return fmt.Errorf("port %d is not active but in state %d: %w", abi.PortNumber, port.State, unix.ENETDOWN)
	}
	return nil
}

// Bounds of the MTU.
const (
	minMTU = 256
	maxMTU = 1<<16 - 1
)

func (c *context) queryGID() error {
	var entry abi.GIDEntry
	c.cmd.begin(abi.ObjectDevice, abi.DeviceQueryGIDEntry)
	c.cmd.u64(abi.GIDEntryPort, abi.PortNumber)
	c.cmd.u64(abi.GIDEntryIndex, 0)
	c.cmd.u32(abi.GIDEntryFlags, 0)
	out := c.cmd.out(abi.GIDEntryResp, abi.GIDEntryLen)
	if err := c.cmd.run(c.file); err != nil {
		return fmt.Errorf("query GID: %w", err)
	}
	_ = entry.Parse(out)
	if c.gid = entry.GID; c.gid == (device.GID{}) {
		return fmt.Errorf("%w: it has no GID", errLies)
	}
	return nil
}

func (c *context) allocPD() error {
	c.cmd.write(abi.CmdAllocPD, make([]byte, abi.WriteCmdLen))
	handle := c.cmd.out(abi.InvokeCoreOut, 4)
	_ = c.cmd.out(abi.AttrUHWOut, abi.AllocPDRespLen)
	if err := c.cmd.run(c.file); err != nil {
		return fmt.Errorf("protection domain: %w", err)
	}
	c.pd = le.Uint32(handle)
	return nil
}

// destroy frees an object; out is how many bytes the kernel answers.
func (c *context) destroy(what string, object, method uint16, handle uint32, out int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cmd.begin(object, method)
	c.cmd.object(abi.DestroyHandle, uint64(handle))
	if out > 0 {
		_ = c.cmd.out(abi.DestroyResp, out)
	}
	err := c.cmd.run(c.file)
	if err == nil || errors.Is(err, unix.EIO) && c.gone.Load() {
		return nil
	}
	return fmt.Errorf("uverbs: destroy %s: %w", what, err)
}

// abandon keeps memory that the device may still write to, because a command that would
// have ended that has failed, until the device is closed.
func (c *context) abandon(mem []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abandoned = append(c.abandoned, mem)
}

// hold is abandon for memory of a caller's, which is not unmapped.
func (c *context) hold(mem []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = append(c.held, mem)
}

// close gives everything back.
func (c *context) close() error {
	err := c.destroy("protection domain", abi.ObjectPD, abi.PDDestroy, c.pd, 0)
	return errors.Join(err, c.closeFile())
}

// closeFile closes the file, with which the kernel frees every object that is left.
func (c *context) closeFile() error {
	errs := []error{c.file.Close(), c.kernel.Unmap(c.cmd.page)}
	for _, mem := range c.abandoned {
		errs = append(errs, c.kernel.Unmap(mem))
	}
	c.abandoned, c.held = nil, nil
	return errors.Join(errs...)
}

var le = binary.LittleEndian

// command is one ioctl after the other, built in a page outside of the Go heap: its
// attributes hold addresses as numbers, which neither the garbage collector nor a stack
// that grows knows of.
//
//	0        24                    abi.MaxIoctl                  pageLen
//	+--------+------+------+-- - --+---------+---------+-- - -----+
//	| header | attr | attr |       | input   | output  |          |
//	+--------+------+------+-- - --+---------+---------+-- - -----+
type command struct {
	page  []byte
	base  uint64
	head  abi.Header
	attrs []abi.Attr
	at    int // where the next argument goes
}

// pageLen has room for the longest command there is here, several times.
const pageLen = 2 * abi.MaxIoctl

func newCommand(k Kernel) (*command, error) {
	page, err := k.Map(pageLen)
	if err != nil {
		return nil, err
	}
	return &command{page: page, base: addressOf(page)}, nil
}

// addressOf is the address of b's first byte.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// begin starts an ioctl.
func (c *command) begin(object, method uint16) {
	c.head = abi.Header{Object: object, Method: method, Driver: abi.DriverEFA}
	c.attrs, c.at = c.attrs[:0], abi.MaxIoctl
}

// write starts a write command, with its core input.
func (c *command) write(cmd uint32, in []byte) {
	c.begin(abi.ObjectDevice, abi.DeviceInvokeWrite)
	c.u64(abi.InvokeWriteCmd, uint64(cmd))
	c.in(abi.InvokeCoreIn, in)
}

func (c *command) add(a abi.Attr) *abi.Attr {
	a.Flags = abi.FlagMandatory
	c.attrs = append(c.attrs, a)
	return &c.attrs[len(c.attrs)-1]
}

// in adds an input.
func (c *command) in(id uint16, b []byte) {
	a := c.add(abi.Attr{ID: id, Len: uint16(len(b))})
	if len(b) <= abi.AttrInline {
		var v [abi.AttrInline]byte
		copy(v[:], b)
		a.Data = le.Uint64(v[:])
		return
	}
	copy(c.place(a, len(b)), b)
}

func (c *command) u32(id uint16, v uint32) { c.add(abi.Attr{ID: id, Len: 4, Data: uint64(v)}) }
func (c *command) u64(id uint16, v uint64) { c.add(abi.Attr{ID: id, Len: 8, Data: v}) }

// out adds an output of n bytes. It is zeroed: a kernel that knows fewer leaves the rest
// alone. It is good until the next begin.
func (c *command) out(id uint16, n int) []byte {
	return c.place(c.add(abi.Attr{ID: id, Len: uint16(n)}), n)
}

// place makes room for an argument. Invariant: there is, since all lengths are constants.
func (c *command) place(a *abi.Attr, n int) []byte {
	b := c.page[c.at : c.at+n : c.at+n]
	clear(b)
	a.Data = c.base + uint64(c.at)
	c.at += (n + 7) &^ 7
	return b
}

// object adds a handle, or a descriptor.
func (c *command) object(id uint16, h uint64) { c.add(abi.Attr{ID: id, Data: h}) }

// optional lets a kernel that does not know the last attribute go without it.
func (c *command) optional() { c.attrs[len(c.attrs)-1].Flags = 0 }

// made adds the handle or descriptor that the command makes. It returns what reads it
// after the command.
func (c *command) made(id uint16) (read func() uint64) { //nolint:unparam // ids are the methods' own, though all are 0
	c.add(abi.Attr{ID: id})
	at := abi.HeaderLen + (len(c.attrs)-1)*abi.AttrLen + abi.AttrDataOff
	return func() uint64 { return le.Uint64(c.page[at:]) }
}

// run makes the ioctl.
func (c *command) run(f File) error {
	c.head.Attrs = uint16(len(c.attrs))
	c.head.Length = uint16(abi.HeaderLen + len(c.attrs)*abi.AttrLen)
	b := c.head.Append(c.page[:0])
	for i := range c.attrs {
		b = c.attrs[i].Append(b)
	}
	for {
		err := f.Ioctl(abi.IoctlVerbs, unsafe.Pointer(unsafe.SliceData(c.page)))
		if !errors.Is(err, unix.EINTR) { // nothing was done
			return err
		}
	}
}

// mappings are the parts of the device that a queue has mapped.
type mappings struct {
	file File
	all  [][]byte
}

// add maps n bytes at a key that the device gave; the last page need not be whole.
func (m *mappings) add(what string, key, n uint64, prot int) ([]byte, error) {
	if n == 0 || n > maxMapping || key > 1<<62 {
		return nil, fmt.Errorf("%w: %s of %d bytes at %#x", errLies, what, n, key)
	}
	b, err := m.file.Mmap(int64(key), int(n), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("uverbs: map %s: %w", what, err)
	}
	m.all = append(m.all, b)
	return b, nil
}

// maxMapping bounds a queue: the longest there may be is 2 MiB.
const maxMapping = 64 << 20

// doorbell maps the page of a doorbell, which lies off bytes in it.
func (m *mappings) doorbell(what string, key uint64, off uint32) (*uint32, error) {
	page := os.Getpagesize()
	if off%4 != 0 || int64(off)+4 > int64(page) {
		return nil, fmt.Errorf("%w: %s at %d of its page", errLies, what, off)
	}
	b, err := m.add(what, key, uint64(page), unix.PROT_WRITE)
	if err != nil {
		return nil, err
	}
	return (*uint32)(unsafe.Pointer(&b[off])), nil
}

// close unmaps everything.
func (m *mappings) close() error {
	var errs []error
	for _, b := range m.all {
		errs = append(errs, m.file.Munmap(b))
	}
	m.all = nil
	return errors.Join(errs...)
}

// pageAlign is n, rounded up to whole pages.
func pageAlign(n uint64) uint64 {
	page := uint64(os.Getpagesize())
	return (n + page - 1) &^ (page - 1)
}

// roundUp is the power of two that is n or the next above it.
func roundUp(n int) int {
	p := 1
	for p < n {
		p <<= 1
	}
	return p
}

func (c *context) modify(m *abi.ModifyQP) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cmd.write(abi.CmdModifyQP, m.Append(nil))
	if err := c.cmd.run(c.file); err != nil {
		return fmt.Errorf("uverbs: queue pair to %v: %w", m.State, err)
	}
	return nil
}

func newResources(c *context) *resources {
	return &resources{ctx: c, maps: mappings{file: c.file}, channel: noEvents, async: noEvents}
}

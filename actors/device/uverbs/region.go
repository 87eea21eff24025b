//go:build linux

package uverbs

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// region is a memory region of a user; it implements device.MR.
type region struct {
	device.MRBase
	dev    *Device
	mem    []byte // also a reference: the garbage collector leaves it alone; nil of a dma-buf
	addr   uint64
	owned  bool // it came from Alloc
	reg    registration
	closed atomic.Bool
}

// allAccess are the rights that there are.
const allAccess = device.LocalWrite | device.RemoteWrite | device.RemoteRead

// Register implements device.Device. The memory is pinned: it counts against the limit of
// locked memory, page by page, each time.
func (d *Device) Register(mem []byte, a device.Access) (device.MR, error) {
	return d.newRegion(mem, a, false)
}

// Alloc implements device.Device.
func (d *Device) Alloc(n int, a device.Access) (device.MR, error) {
	if n <= 0 || a&^allAccess != 0 {
		return nil, fmt.Errorf("%w: %d bytes with access %#x", ErrConfig, n, a)
	}
	mem, err := d.ctx.kernel.Map(n)
	if err != nil {
		return nil, fmt.Errorf("%w: %d bytes: %w", device.ErrNoMemory, n, err)
	}
	mr, err := d.newRegion(mem, a, true)
	if err != nil {
		return nil, errors.Join(err, d.ctx.kernel.Unmap(mem))
	}
	return mr, nil
}

func (d *Device) newRegion(mem []byte, a device.Access, owned bool) (device.MR, error) {
	r := &region{dev: d, owned: owned}
	if err := r.open(mem, a); err != nil {
		return nil, err
	}
	return r, nil
}

// open registers mem. Precondition: the region is new, or closed.
func (r *region) open(mem []byte, a device.Access) error {
	if len(mem) == 0 || a&^allAccess != 0 {
		return fmt.Errorf("%w: %d bytes with access %#x", ErrConfig, len(mem), a)
	}
	if err := r.dev.users.Acquire(); err != nil {
		return err
	}
	reg, err := r.dev.ctx.register(mem, a)
	if err != nil {
		r.dev.users.Release()
		return err
	}
	r.mem, r.addr, r.reg = mem, addressOf(mem), reg
	return nil
}

// registration is memory that the device knows.
type registration struct {
	handle uint32
	lkey   uint32
	rkey   uint32
}

// rights are the access bits for a: those that the device has no use for, a kernel refuses.
func (c *context) rights(a device.Access) uint32 {
	var bits uint32
	if a&(device.LocalWrite|device.RemoteWrite) != 0 {
		bits |= abi.AccessLocalWrite
	}
	if a&device.RemoteWrite != 0 && c.can(abi.DeviceRDMAWrite) {
		bits |= abi.AccessRemoteWrite
	}
	if a&device.RemoteRead != 0 && c.can(abi.DeviceRDMARead) {
		bits |= abi.AccessRemoteRead
	}
	return bits
}

// can reports whether the device has an ability, one of abi.Device....
func (c *context) can(ability uint32) bool { return c.efa.Caps&ability != 0 }

// register pins mem and tells the device of it.
func (c *context) register(mem []byte, a device.Access) (registration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := addressOf(mem)
	in := abi.RegMR{Start: at, Length: uint64(len(mem)), IOVA: at, PD: c.pd, Access: c.rights(a)}
	var b [abi.RegMRLen]byte // not to be allocated for each message that is registered
	c.cmd.write(abi.CmdRegMR, in.Append(b[:0]))
	out := c.cmd.out(abi.InvokeCoreOut, abi.RegMRRespLen)
	if err := c.cmd.run(c.file); err != nil {
		return registration{}, registerError(len(mem), err)
	}
	var r abi.RegMRResp
	_ = r.Parse(out)
	return registration{handle: r.Handle, lkey: r.LKey & abi.LKeyMask, rkey: r.RKey}, nil
}

func registerError(n int, err error) error {
	switch {
	case errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("%w: %d bytes: %w (more than ulimit -l allows to lock, or too many regions)", device.ErrNoMemory, n, err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: %d bytes: %w (ulimit -l is 0)", device.ErrNoMemory, n, err)
	}
	return fmt.Errorf("uverbs: register %d bytes: %w", n, err)
}

func (c *context) deregister(r registration) error {
	return c.destroy("memory region", abi.ObjectMR, abi.MRDestroy, r.handle, 0)
}

// Bytes implements device.MR.
func (r *region) Bytes() []byte { return r.mem }

// Addr implements device.MR.
func (r *region) Addr() uint64 { return r.addr }

// LKey implements device.MR.
func (r *region) LKey() uint32 { return r.reg.lkey }

// RKey implements device.MR.
func (r *region) RKey() uint64 { return uint64(r.reg.rkey) }

// Remote implements device.MR.
func (r *region) Remote() bool { return r.dev.info.RDMARead || r.dev.info.RDMAWrite }

// Close implements device.MR. After an error the memory stays pinned, and referred to, until
// the device is closed.
func (r *region) Close() error {
	if r.closed.Swap(true) {
		return device.ErrClosed
	}
	defer r.dev.users.Release()
	err := r.dev.ctx.deregister(r.reg)
	switch {
	case err != nil && r.owned:
		r.dev.ctx.abandon(r.mem)
	case err != nil && r.mem != nil:
		r.dev.ctx.hold(r.mem)
	case !r.owned:
	default:
		err = r.dev.ctx.kernel.Unmap(r.mem)
	}
	return err
}

var _ device.Renewer = (*region)(nil)

// Clear implements device.Renewer.
func (r *region) Clear() { r.mem = nil }

// Renew implements device.Renewer.
func (r *region) Renew(mem []byte, a device.Access) error {
	if r.owned || !r.closed.Load() {
		return fmt.Errorf("%w: the region is open, or came from Alloc", ErrConfig)
	}
	if err := r.open(mem, a); err != nil {
		return err
	}
	r.closed.Store(false)
	return nil
}

// bufferBase is the address of the first dma-buf region. This process has no memory at the
// addresses from there on, for far more bytes than dma-bufs have.
const bufferBase = 1 << 44

// RegisterDMABuf implements device.Device. ErrNotSupported: the kernel or the driver of the
// device whose memory it is does not do that; fs.ErrInvalid: fd is no dma-buf, or ends before
// the region does.
func (d *Device) RegisterDMABuf(fd int, off uint64, n int, a device.Access) (device.MR, error) {
	if fd < 0 || fd > math.MaxInt32 || n <= 0 || off+uint64(n) < off || a&^allAccess != 0 {
		return nil, fmt.Errorf("%w: %d bytes from %d on of dma-buf %d with access %#x", ErrConfig, n, off, fd, a)
	}
	if err := d.users.Acquire(); err != nil {
		return nil, err
	}
	addr := d.bufferAddress(off, uint64(n))
	reg, err := d.ctx.registerBuffer(fd, off, uint64(n), addr, a)
	if err != nil {
		d.users.Release()
		return nil, err
	}
	return &region{dev: d, addr: addr, reg: reg}, nil
}

// bufferAddress takes n addresses, of which the first has off's place in a page, as the
// kernel wants it.
func (d *Device) bufferAddress(off, n uint64) uint64 {
	page := uint64(os.Getpagesize())
	in := off % page
	size := (in+n+page-1)&^(page-1) + page
	return bufferBase + d.buffers.Add(size) - size + in
}

func (c *context) registerBuffer(fd int, off, n, addr uint64, a device.Access) (registration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cmd.begin(abi.ObjectMR, abi.MRRegDMABuf)
	made := c.cmd.made(abi.DMABufHandle)
	c.cmd.object(abi.DMABufPD, uint64(c.pd))
	c.cmd.u64(abi.DMABufOffset, off)
	c.cmd.u64(abi.DMABufLength, n)
	c.cmd.u64(abi.DMABufIOVA, addr)
	c.cmd.u32(abi.DMABufFD, uint32(fd))
	c.cmd.u32(abi.DMABufAccess, c.rights(a))
	lkey, rkey := c.cmd.out(abi.DMABufLKey, 4), c.cmd.out(abi.DMABufRKey, 4)
	err := c.cmd.run(c.file)
	switch {
	case err == nil:
		return registration{handle: uint32(made()), lkey: le.Uint32(lkey) & abi.LKeyMask, rkey: le.Uint32(rkey)}, nil
	case errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.ENOTTY):
		return registration{}, fmt.Errorf("%w: dma-buf %d: %w", device.ErrNotSupported, fd, err)
	case errors.Is(err, unix.ENOMEM):
		return registration{}, fmt.Errorf("%w: dma-buf %d: %w", device.ErrNoMemory, fd, err)
	}
	return registration{}, fmt.Errorf("uverbs: dma-buf %d: %w", fd, err)
}

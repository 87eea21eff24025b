//go:build linux

package uverbs

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

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
	if err := d.users.Enter(); err != nil {
		return nil, err
	}
	addr := d.bufferAddress(off, uint64(n))
	reg, err := d.ctx.registerBuffer(fd, off, uint64(n), addr, a)
	if err != nil {
		d.users.Leave()
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

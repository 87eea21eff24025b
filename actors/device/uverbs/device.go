//go:build linux

package uverbs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/actors/device/uverbs/mmio"
)

// Errors beside those of package device.
var (
	// ErrConfig is the error of a request that makes no sense.
	ErrConfig = errors.New("uverbs: bad configuration")
)

// Defaults of a queue pair.
const (
	DefaultSQ = 256
	DefaultRQ = 512
)

// Config says which device to open.
type Config struct {
	// Path is the device file, such as /dev/infiniband/uverbs0.
	Path string
	// Name is what the device is called, as in "efa:rdmap0s6"; "": Path.
	Name string
	// Narrow keeps WQEs at 64 bytes where the device has 128, too: send queues may be
	// twice as deep, and 32 bytes instead of 80 go within a WQE.
	Narrow bool
	// Unsolicited lets peers' writes with immediate data take no receive, where the card can
	// do that. libfabric has it so by default since 1.22, and sends no such writes to a peer
	// that has not. Nothing holds a peer up then that sends them faster than they are polled:
	// what the completion queue has no room for is lost, and the queue pair with it.
	Unsolicited bool
	// Kernel is OS if it is nil.
	Kernel Kernel
	// Logger gets a warning when a device fails; nil: nothing.
	Logger *slog.Logger
}

// Device is an open EFA device; it implements [device.Device].
type Device struct {
	device.Base
	ctx    *context
	info   device.Info
	wqe    int
	inline int
	log    *slog.Logger
	ahs    handles

	users  device.RefCount
	opened atomic.Int64 // queue pairs so far

	buffers atomic.Uint64 // addresses that regions of dma-bufs have taken
}

var _ device.Device = (*Device)(nil)

// Open opens a device.
func Open(cfg Config) (device.Device, error) {
	if cfg.Kernel == nil {
		cfg.Kernel = OS{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Name == "" {
		cfg.Name = cfg.Path
	}
	ctx, err := openContext(cfg.Kernel, cfg.Path)
	if err != nil {
		return nil, err
	}
	ctx.unsolicited = cfg.Unsolicited && ctx.can(abi.DeviceRDMAWrite) && ctx.can(abi.DeviceUnsolicitedWrite)
	d := &Device{ctx: ctx, log: cfg.Logger, wqe: abi.WQELen, inline: int(ctx.limits.Inline)}
	least := roundUp(int(ctx.limits.MinSQ))
	ex, most := min(int(ctx.limits.InlineEx), abi.MaxInlineWide), int(ctx.limits.MaxLLQ)/abi.WideWQELen
	if !cfg.Narrow && ex > d.inline && most >= least {
		d.wqe, d.inline = abi.WideWQELen, ex
	}
	d.ahs = handles{ctx: ctx, byGID: make(map[device.GID]*handle)}
	if d.info = d.describe("efa:" + cfg.Name); d.info.MaxSQ < least {
		err = fmt.Errorf("uverbs: %s: %w: send queues of at least %d and at most %d", cfg.Path, errLies, least, d.info.MaxSQ)
		return nil, errors.Join(err, ctx.close())
	}
	return d, nil
}

// minRegister is where a copy takes about as long as a command to the card.
const minRegister = 64 << 10

// maxDepth bounds the queues: ids have 16 bits, of which some are the tag.
const maxDepth = 1 << 15

// describe says what the device can do. Depths are powers of two: every queue is rounded up
// to one, which must not exceed the limits.
func (d *Device) describe(name string) device.Info {
	c := d.ctx
	i := device.Info{
		OwnQPN: true,
		Name:   name, GID: c.gid, MTU: c.mtu, PartID: c.core.PartID,
		MaxSQ: roundDown(min(int(c.efa.MaxSQ), int(c.limits.MaxLLQ)/d.wqe, int(c.core.MaxCQE), maxDepth)),
		MaxRQ: roundDown(min(int(c.efa.MaxRQ), int(c.core.MaxCQE), maxDepth)),
		MaxQP: int(c.core.MaxQP), MaxMR: int(c.core.MaxMR),
		// Packets are copied to memory that the device knows, unless their payload is in a
		// region and can be gathered.
		CopiesAtPost: true, MaxPieces: 8, MaxRDMAPieces: 1, LocalKeys: true, Gathers: c.efa.MaxSGESQ > 1,
		MinRegister: minRegister, DMABuf: true, Datagram: true,
		RDMARead: c.can(abi.DeviceRDMARead), RDMAWrite: c.can(abi.DeviceRDMAWrite),
	}
	i.UnsolicitedWrite = c.unsolicited
	if i.RDMARead || i.RDMAWrite {
		i.MaxRDMA = int(c.efa.MaxRDMA)
	}
	return i
}

// roundDown is the power of two that is n or the next below it.
func roundDown(n int) int {
	p := roundUp(n)
	if p > n {
		p >>= 1
	}
	return p
}

// Info implements device.Device.
func (d *Device) Info() device.Info { return d.info }

// Reaches implements device.Device: a GID of the same subnet may be an EFA device's.
func (d *Device) Reaches(gid device.GID) bool {
	const prefix = 8
	return [prefix]byte(gid[:prefix]) == [prefix]byte(d.info.GID[:prefix])
}

// serial is a number for a new queue pair.
func (d *Device) serial() int { return int(d.opened.Add(1)) }

// Close implements device.Device.
func (d *Device) Close() error { return d.users.Close(d.ctx.close) }

// Kernel is what a driver asks the system for: device files, and ordinary memory that a
// device may be told of. Errors are those of the system calls.
type Kernel interface {
	// Open opens a device file.
	Open(path string) (File, error)
	// Map is n bytes of memory, zeroed, whole pages, outside of the Go heap.
	Map(n int) ([]byte, error)
	// Unmap gives them back.
	Unmap(b []byte) error
}

// File is an open device file. Any goroutine may call its methods.
type File interface {
	// Ioctl is ioctl(2). What arg and the attributes point to does not move.
	Ioctl(cmd uint64, arg unsafe.Pointer) error
	// Mmap is mmap(2) of length bytes at a key that a command has returned.
	Mmap(key int64, length, prot, flags int) ([]byte, error)
	// Munmap is munmap(2) of a whole mapping of Mmap.
	Munmap(b []byte) error
	// Close is close(2). Mappings stay, and with them the device's objects.
	Close() error
}

// OS is the Kernel that this process runs on.
type OS struct{}

// Open implements Kernel.
func (OS) Open(path string) (File, error) {
	if !mmio.Hardware {
		return nil, fmt.Errorf("%w: this program was built without the fences that %s takes", device.ErrNotSupported, path)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return osFile(fd), nil
}

// Map implements Kernel. A child that os/exec starts has no copy of the memory, which
// could otherwise keep a page that the device writes to from this process.
func (OS) Map(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	_ = unix.Madvise(b, unix.MADV_DONTFORK) // pinned pages are copied at a fork since Linux 5.13
	if n >= hugePage {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // fewer entries in the device's page list
	}
	return b, nil
}

// Unmap implements Kernel.
func (OS) Unmap(b []byte) error { return os.NewSyscallError("munmap", unix.Munmap(b)) }

const hugePage = 2 << 20

// osFile is a descriptor.
type osFile int

// Ioctl implements File.
func (f osFile) Ioctl(cmd uint64, arg unsafe.Pointer) error {
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(f), uintptr(cmd), uintptr(arg)); e != 0 {
		return e
	}
	return nil
}

// Mmap implements File.
func (f osFile) Mmap(key int64, length, prot, flags int) ([]byte, error) {
	return unix.Mmap(int(f), key, length, prot, flags)
}

// Munmap implements File.
func (osFile) Munmap(b []byte) error { return unix.Munmap(b) }

// Close implements File.
func (f osFile) Close() error { return unix.Close(int(f)) }

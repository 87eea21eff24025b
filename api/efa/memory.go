package efa

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/runtime/arena"
	"github.com/efactor/efactor/runtime/shard"
)

// Access is what a memory region may be used for; zero means AccessSend and
// AccessRecv, so nothing that a peer may do by itself.
type Access uint8

// The access rights (FI_SEND and so on).
const (
	// AccessSend: messages and writes may come from it. Long ones are read by
	// the peer's device where both devices can, so that they are copied once.
	// For that the peer gets a key for the bytes of that message, good until it is
	// complete. A device without memory windows (EFA) has the region's key alone: there
	// the software of the peer's side sees to it that nothing else is read.
	AccessSend Access = 1 << iota
	// AccessRecv: messages and what is read may go to it.
	AccessRecv
	// AccessRemoteRead: peers may read it. Atomics that fetch need it as well.
	AccessRemoteRead
	// AccessRemoteWrite: peers may write it. All atomics but a load need it as well.
	AccessRemoteWrite

	allAccess = AccessSend | AccessRecv | AccessRemoteRead | AccessRemoteWrite
)

// rights gives what a is called by the device, and in the table of regions, which
// peers are held to. A device without windows that is to read for a message needs the
// right to read, which does not make a peer's reads legal.
func (a Access) rights(d device.Device) (dev device.Access, table mr.Access) {
	if a&AccessRemoteRead != 0 {
		dev |= device.RemoteRead
	}
	if a&AccessSend != 0 {
		dev |= device.Message
	}
	if a&(AccessRecv|AccessRemoteWrite) != 0 {
		dev |= device.LocalWrite
		table |= device.LocalWrite
	}
	if a&AccessRemoteWrite != 0 {
		dev |= device.RemoteWrite
		table |= device.RemoteWrite
	}
	if a&AccessRemoteRead != 0 {
		table |= device.RemoteRead
	}
	if a&AccessSend != 0 {
		table |= mr.Send
	}
	if d.Devices() == nil { // else each of them answers by itself
		i := d.Info()
		dev = dev.On(&i)
	}
	return dev, table
}

// MemoryRegion is memory that the device knows: it reaches it without a copy, and
// peers that have its Remote may use it as Access says. A plain slice works as a
// buffer everywhere too.
type MemoryRegion struct {
	dom    *Domain
	mem    []byte
	access Access
	remote Remote
	region *mr.Region

	mu      sync.Mutex
	state   regionState
	idle    bool            // no operation uses it
	err     error           // of Close
	waiting []*shard.Signal // wait in Close
}

type regionState uint8

const (
	regionOpen regionState = iota
	regionClosing
	regionClosed
)

// Alloc returns n bytes of zeroed, page-aligned memory outside the Go heap, in the
// kind of memory that the device reaches best: the recommended source of buffers.
// It lives until Close; using its bytes afterwards crashes the program. ErrNoMR
// means that the device takes no more regions.
func (d *Domain) Alloc(n int, a Access) (_ *MemoryRegion, err error) {
	defer formed("alloc", &err)
	if n <= 0 {
		return nil, fmt.Errorf("%w: %d bytes", ErrInvalid, n)
	}
	return d.register(a, func(a device.Access) (device.MR, error) { return d.fab.dev.Alloc(n, a) })
}

// Register makes memory that the caller has known to the device, until Close: it
// is pinned, if it is Go's, and kept from the garbage collector. A device in shared
// memory does not reach it from other processes; there peers use it by emulated
// operations, which copy more than once. ErrNoMR means that the device refused: it
// takes no more regions.
func (d *Domain) Register(p []byte, a Access) (_ *MemoryRegion, err error) {
	defer formed("register", &err)
	if len(p) == 0 {
		return nil, fmt.Errorf("%w: no bytes", ErrInvalid)
	}
	m, err := d.register(a, func(a device.Access) (device.MR, error) { return d.fab.dev.Register(p, a) })
	if err == nil {
		m.pin()
	}
	return m, err
}

// RegisterDMABuf makes length bytes from offset on of the dma-buf fd, memory of another device
// such as a GPU, known to peers, for AccessRemoteRead and AccessRemoteWrite. They reach it by
// RDMA alone, so both devices must have that, and the peer's buffer must be in a memory region
// or have ProtocolConfig.MinRegister bytes; other accesses, and atomics, are refused as those
// without the right are. Bytes is nil, and no operation of this side can have its buffer there.
// fd may be closed afterwards.
// ErrNotSupported: the device is none of EFA's own (software devices, and "auto"), or the
// kernel or the exporter of fd cannot do it.
func (d *Domain) RegisterDMABuf(fd int, offset uint64, length int, a Access) (_ *MemoryRegion, err error) {
	defer formed("register dma-buf", &err)
	switch remote := AccessRemoteRead | AccessRemoteWrite; {
	case length <= 0 || fd < 0 || a == 0 || offset+uint64(length) < offset:
		return nil, fmt.Errorf("%w: %d bytes of %d with access %#x", ErrInvalid, length, fd, uint8(a))
	case a&^remote != 0:
		return nil, fmt.Errorf("%w: a dma-buf is for peers' accesses only", ErrNotSupported)
	case !d.fab.dev.Info().DMABuf:
		return nil, fmt.Errorf("%w: dma-bufs on %s", ErrNotSupported, d.fab.dev.Info().Name)
	}
	m, err := d.register(a, func(a device.Access) (device.MR, error) { return d.fab.dev.RegisterDMABuf(fd, offset, length, a) })
	if err == nil {
		m.remote.n = uint64(length)
	}
	return m, err
}

func (d *Domain) register(a Access, from func(device.Access) (device.MR, error)) (*MemoryRegion, error) {
	if a&^allAccess != 0 {
		return nil, fmt.Errorf("%w: access %#x", ErrInvalid, uint8(a))
	}
	if a == 0 {
		a = AccessSend | AccessRecv
	}
	if err := d.enter(&d.memory); err != nil {
		return nil, err
	}
	rights, table := a.rights(d.fab.dev)
	var dev device.MR
	ask := func() (err error) { dev, err = from(rights); return err }
	err := device.Guard(ask)
	if errors.Is(err, device.ErrNoMemory) && d.plain.Drop() { // it has what the caller wants
		err = device.Guard(ask)
	}
	if err != nil {
		d.leave(&d.memory)
		return nil, fmt.Errorf("%w: %w", registerErrno(err), err)
	}
	d.fab.regions.Add(1)
	d.fab.registered.Add(1)
	m := &MemoryRegion{dom: d, mem: dev.Bytes(), access: a, region: d.regions.Add(dev, table)}
	m.region.OnIdle = m.onIdle
	m.remote = d.fab.remoteOf(m.region)
	return m, nil
}

// registerErrno is the number for a device's refusal.
func registerErrno(err error) Errno {
	switch {
	case errors.Is(err, arena.ErrSize), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EBADF), errors.Is(err, syscall.EFAULT):
		return ErrInvalid
	case errors.Is(err, syscall.ENOMEM):
		return ErrNoMemory
	case errors.Is(err, device.ErrNoMemory):
		return ErrNoMR
	case errors.Is(err, device.ErrClosed):
		return ErrClosed
	default:
		return ErrNotSupported
	}
}

// Bytes is the memory; nil after Close, and of a dma-buf.
func (m *MemoryRegion) Bytes() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == regionClosed {
		return nil
	}
	return m.mem
}

// Remote names the whole region, for peers. After Close it names nothing.
func (m *MemoryRegion) Remote() Remote { return m.remote }

// Access is what the region may be used for.
func (m *MemoryRegion) Access() Access { return m.access }

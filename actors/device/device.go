package device

import (
	"errors"
	"fmt"
	"sync"

	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
)

// GID is the 16-byte address of a port, in network order (§1.4).
type GID [16]byte

// AH is the number of an address handle: the device's short name for a GID.
type AH uint16

// UnknownAH is the source of a packet whose sender has no address handle here.
const UnknownAH AH = 0xffff

// Errors that a driver returns from a call. A failure that shows later arrives as a
// completion's Status.
var (
	ErrQueueFull    = errors.New("device: queue is full")
	ErrTooLong      = errors.New("device: longer than the MTU, or than MaxRDMA")
	ErrBadAH        = errors.New("device: no such address handle")
	ErrBadKey       = errors.New("device: no local region with this key holds the memory")
	ErrQPNInUse     = errors.New("device: queue pair number is in use")
	ErrClosed       = errors.New("device: closed")
	ErrNoMemory     = errors.New("device: memory registration refused")
	ErrNotSupported = errors.New("device: not supported")
)

// Device is one attachment to a fabric: what a verbs context and its protection
// domain are on EFA. Its methods may be called from any goroutine.
//
// The interface is everything that any driver offers. A driver embeds [Base], which
// refuses what it does not have; Info says beforehand what that is. A wrapper embeds
// the Device that it wraps, so that it offers what that one does, and overrides the
// methods that it is about.
type Device interface {
	// Info never changes after the device was opened.
	Info() Info
	// Devices lists the devices that this one joins, best first. It is nil for a
	// device that joins none.
	Devices() []Device
	// Reaches reports, without asking the other side, whether gid can be one that
	// this device carries to. A choice among several devices is made by it.
	Reaches(gid GID) bool
	// Environment is the simulation that the device is part of; nil in real time.
	Environment() Environment

	// OpenQP makes a queue pair with its completion queue, ready to use.
	// ErrNotSupported: QPConfig asks for what Info does not list, or for queues that
	// are too deep.
	OpenQP(QPConfig) (QP, error)

	// Register makes mem known to the device for the accesses in a, until the
	// region is closed (ErrNoMemory: refused, there may be too many). mem must
	// stay where it is and be reachable until then.
	Register(mem []byte, a Access) (MR, error)
	// Alloc returns a region of n zeroed bytes outside the Go heap, in the kind
	// of memory that the device reaches best.
	Alloc(n int, a Access) (MR, error)
	// RegisterDMABuf makes a region of the n bytes from offset off on of the
	// dma-buf fd, memory of another device such as a GPU, for remote accesses. Bytes of
	// the region is nil, and no request of this side can name it. fd may be closed
	// afterwards. ErrNotSupported without Info.DMABuf.
	RegisterDMABuf(fd int, off uint64, n int, a Access) (MR, error)
	// RegisterForeign makes the n bytes at addr of process pid known for the
	// remote accesses in a; requests call the first byte addr. Bytes of the region
	// is nil and Remote true, and it cannot be the local side of RDMA. A process
	// that has ended, or memory that it has unmapped, ends requests with
	// StatusBadAddress; its memory is reached with the kernel's leave
	// (ptrace_may_access) at the time of the request. The emulator of an EFA device
	// needs it, whose applications own their memory. ErrNotSupported without
	// Info.Foreign.
	RegisterForeign(pid int, addr uint64, n int, a Access) (MR, error)

	// Close fails with an error while queue pairs or regions are open.
	Close() error
}

// Base is what a driver of a single device embeds: it reaches every GID, runs in real
// time, and refuses the kinds of memory that few devices have.
type Base struct{}

// Devices implements Device: it joins none.
func (Base) Devices() []Device { return nil }

// Reaches implements Device: it reaches every GID.
func (Base) Reaches(GID) bool { return true }

// Environment implements Device: real time.
func (Base) Environment() Environment { return nil }

// RegisterDMABuf implements Device by a refusal.
func (Base) RegisterDMABuf(int, uint64, int, Access) (MR, error) { return nil, ErrNotSupported }

// RegisterForeign implements Device by a refusal.
func (Base) RegisterForeign(int, uint64, int, Access) (MR, error) { return nil, ErrNotSupported }

// Environment is what a simulated device brings along for those who run on it: its own
// time, and a way to wait in it.
type Environment interface {
	Clock() clock.Clock
	Waiter() shard.Waiter
	Seed() uint64
	Random() uint32
	// Attach receives each shard, which the environment runs.
	Attach(*shard.Shard)
}

// String prints the GID as an IPv6 address in its full form without brackets.
func (g GID) String() string {
	return fmt.Sprintf("%x:%x:%x:%x:%x:%x:%x:%x",
		uint16(g[0])<<8|uint16(g[1]), uint16(g[2])<<8|uint16(g[3]),
		uint16(g[4])<<8|uint16(g[5]), uint16(g[6])<<8|uint16(g[7]),
		uint16(g[8])<<8|uint16(g[9]), uint16(g[10])<<8|uint16(g[11]),
		uint16(g[12])<<8|uint16(g[13]), uint16(g[14])<<8|uint16(g[15]))
}

// ErrBusy is what Close of a device returns while queue pairs or regions of it are open.
var ErrBusy = errors.New("device: queue pairs or regions are open")

// RefCount counts the queue pairs and regions that are open on a device, which closes only when
// there are none. The zero value is that of a new device. Any goroutine.
type RefCount struct {
	mu     sync.Mutex
	open   int
	closed bool
}

// Acquire counts one more; ErrClosed if the device is closed.
func (u *RefCount) Acquire() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return ErrClosed
	}
	u.open++
	return nil
}

// Release ends what Acquire began.
func (u *RefCount) Release() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open--
}

// Close has Enter fail from now on and calls end, once: later calls return ErrClosed. While
// there are users it does nothing but return ErrBusy.
func (u *RefCount) Close(end func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return ErrClosed
	}
	if u.open > 0 {
		return fmt.Errorf("%w: %d", ErrBusy, u.open)
	}
	u.closed = true
	return end()
}

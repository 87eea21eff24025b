package mr

import (
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
)

// Access is what a region may be used for: device.LocalWrite, RemoteWrite and
// RemoteRead.
type Access = device.Access

// Send is a right of a region in the table only: messages from it may be read by
// the receiver's device, which the device's region must allow. The device has no
// such right of its own.
const Send = Access(1 << 7)

// EmulatedOnly is set in the key of a region that the device's RDMA does not
// reach: others may read, write and update it by emulated subprotocols only. No
// device's key has the bit, so to a libfabric it means nothing.
const EmulatedOnly = uint64(1) << 63

// EmulatedRead is set in the key of a region that others may not read: who tries all the
// same does so by emulated subprotocols, so that the table refuses it. A device without
// windows (device.Info) would not, since there it must allow to read what messages come from.
const EmulatedRead = uint64(1) << 62

// deviceKeys are the bits of a key that are the device's. The other two are the protocol's.
const deviceKeys = uint64(1)<<62 - 1

// DeviceKey is the part of a key that names a region to a device.
func DeviceKey(key uint64) uint64 { return key & deviceKeys }

// retired is the bit of Region.state above the number of users.
const retired = int64(1) << 62

// Region is a registered memory region. Any goroutine may call its methods.
type Region struct {
	// OnIdle is called once, when the region is retired and no operation uses it
	// any more: by Retire itself, or by the last Done, on that goroutine. It may
	// be nil. Set it before Retire.
	OnIdle func()

	table  *Table
	dev    device.MR
	mem    []byte
	names  []name  // by path
	one    [1]name // has names of a device with one path, which most are
	closes bool    // idle closes dev: a Cache's
	lender *Cache  // gets the region back when dev is closed; nil: nobody does
	age    uint64  // in the table: grows from the newest region to the oldest
	access Access
	state  atomic.Int64 // operations that use it, and the bit retired

	exports int // made of it at all; Table.mu guards it

	used atomic.Uint64 // when it was found last, of a Cache's
}

// name is what the device of one path calls the region.
type name struct {
	addr uint64
	key  uint64 // RKey, EmulatedOnly and EmulatedRead
	lkey uint32
}

func newRegion(t *Table, dev device.MR, a Access) *Region {
	r := &Region{table: t}
	r.set(dev, a)
	return r
}

// set has the region, of which nobody knows, be that of the device's.
func (r *Region) set(dev device.MR, a Access) {
	r.dev, r.mem, r.access = dev, dev.Bytes(), a
	r.names = r.one[:0]
	parts := dev.Parts()
	if parts == nil {
		r.names = append(r.names, nameOf(dev, a))
	}
	for _, p := range parts {
		r.names = append(r.names, nameOf(p, a))
	}
}

// nameOf is what the device of one path calls its part of a region.
func nameOf(p device.MR, a Access) name {
	n := name{addr: p.Addr(), key: p.RKey(), lkey: p.LKey()}
	if !p.Remote() {
		n.key |= EmulatedOnly
	}
	if a&device.RemoteRead == 0 {
		n.key |= EmulatedRead
	}
	return n
}

// Paths is the number of paths on which the region has a name: that of the devices which
// its own joins, or 1.
func (r *Region) Paths() int { return len(r.names) }

// Key is what remote sides call the region on a path: the RKey of the path's device, and
// perhaps EmulatedOnly and EmulatedRead.
func (r *Region) Key(path uint8) uint64 { return r.names[path].key }

// LKey names the region in work requests of this side on a path.
func (r *Region) LKey(path uint8) uint32 { return r.names[path].lkey }

// Addr is what remote sides call the first byte on a path.
func (r *Region) Addr(path uint8) uint64 { return r.names[path].addr }

// Bytes is the memory. It may be touched between Use and Done, and by the owner.
func (r *Region) Bytes() []byte { return r.mem }

// Access is what the region was registered for.
func (r *Region) Access() Access { return r.access }

// Remote reports whether the device of a path carries RDMA of others to the region.
func (r *Region) Remote(path uint8) bool { return r.names[path].key&EmulatedOnly == 0 }

// Device is the device's region, for its owner to close.
func (r *Region) Device() device.MR { return r.dev }

// Use says that an operation begins to use the memory, which then stays until
// Done. False: the region was retired, and must be left alone.
func (r *Region) Use() bool {
	for {
		n := r.state.Load()
		if n&retired != 0 {
			return false
		}
		if r.state.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Share is one more Use by who knows that there is one: it succeeds although the
// region was retired.
func (r *Region) Share() { r.state.Add(1) }

// Done takes one successful Use back. Without one it does nothing.
func (r *Region) Done() {
	for {
		n := r.state.Load()
		if n&^retired == 0 {
			return
		}
		if r.state.CompareAndSwap(n, n-1) {
			if n-1 == retired {
				r.idle()
			}
			return
		}
	}
}

// Users is the number of operations that use the region.
func (r *Region) Users() int64 { return r.state.Load() &^ retired }

// Retire makes the region unknown: it is found no more and cannot be used anew.
// Operations that use it go on; OnIdle tells when there are none. A second call
// does nothing.
func (r *Region) Retire() {
	r.table.remove(r)
	if before := r.state.Or(retired); before == 0 {
		r.idle()
	}
}

func (r *Region) idle() {
	closed := r.closes && closeQuietly(r.dev)
	if r.OnIdle != nil {
		r.OnIdle()
	}
	if closed && r.lender != nil {
		r.lender.takeBack(r) // another's from now on
	}
}

// Error is why memory that a remote side names may not be touched. The checks
// are made in this order, and the first that fails is reported.
type Error uint8

// The reasons.
const (
	// ErrKey: no live region has the key.
	ErrKey Error = iota + 1
	// ErrRight: the region was not registered for this access.
	ErrRight
	// ErrRange: the bytes are not all in the region.
	ErrRange
)

// Error describes the reason.
func (e Error) Error() string {
	switch e {
	case ErrKey:
		return "mr: no memory region has the key"
	case ErrRight:
		return "mr: the memory region does not allow the access"
	case ErrRange:
		return "mr: outside of the memory region"
	default:
		return "mr: no reason"
	}
}

// Errno is the number that libfabric reports for it.
func (e Error) Errno() errno.Errno {
	if e == ErrKey {
		return errno.ErrInvalid
	}
	return errno.ErrAccess
}

// Is lets errors.Is find the number that libfabric reports, and errno.ErrNoKey
// for a key that nobody has.
func (e Error) Is(target error) bool {
	n, ok := target.(errno.Errno)
	return ok && (n == e.Errno() || e == ErrKey && n == errno.ErrNoKey)
}

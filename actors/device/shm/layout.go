package shm

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/efactor/efactor/actors/device"
)

// A segment: the header in its file, and all of this in its memory. Words that different sides write are at least two cache
// lines apart, since processors fetch lines in pairs:
//
//	0      header    written before the segment has a name, then constant
//	128    control   three words, 128 bytes each
//	512    senders   the queue pairs that send here, 16 bytes each
//	...    origins   from which GID, in the same order, 16 bytes each
//	...    turns     from which message on one that is held back is refused, 4 bytes each
//	...    windows   what is lent for a while, 32 bytes each
//	...    posts     the ring of posted receives, 8 bytes each
//	...    cells     what came for them, 128 bytes each
//	...    slots     the receive buffers, an MTU each, rounded up to 64
const (
	magic   = 0x6d68732d61666531 // "1efa-shm"
	version = 6

	pairBytes  = 128
	inlineMax  = pairBytes - 8
	lineMax    = 48 // so many of them lie in one cache line with the word; a slot is longer
	maxSenders = 1 << 12

	headerBytes  = pairBytes
	controlBytes = 3 * pairBytes
	sendersAt    = headerBytes + controlBytes
	originsAt    = sendersAt + maxSenders*16
	turnsAt      = originsAt + maxSenders*16
	windowsAt    = turnsAt + maxSenders*4
	postsAt      = windowsAt + maxWindows*32
)

// header describes the segment.
type header struct {
	magic   uint64
	gen     uint64
	gid     device.GID
	version uint32
	mtu     uint32
	slots   uint32
	qpn     uint32
	qkey    uint32
	dom     uint64 // of the device, as its regions have it
	sealed  sealedAt
}

var _ [headerBytes - unsafe.Sizeof(header{})]byte // it fits

// The values of control.bell.
const (
	running uint32 = iota // the receiver polls
	parked                // the owner sleeps: a process that sets running again rings its bell
	closed                // its owner has closed it
	dead                  // its owner has died, according to the process that took the lock
)

// control holds the words that are outside the cells.
type control struct {
	bell   atomic.Uint32
	beat   atomic.Uint32 // counted up by the owner while its process runs
	_      [pairBytes - 8]byte
	posted atomic.Uint64 // positions below it have been posted; the receiver's
	_      [pairBytes - 8]byte
	tail   atomic.Uint64 // positions below it have been claimed; a hint
	_      [pairBytes - 8]byte
}

// sender is an entry of the sender table: claimed by CASing who from 0, and
// complete before the sender's first packet. Only the receiver frees it.
type sender struct {
	who   atomic.Uint64 // an ident
	qkey  atomic.Uint32
	flags atomic.Uint32
}

// The flags of a sender.
const (
	bye      uint32 = 1 << iota // its own: it has left in order, its end is not reported as a death
	heldBack                    // the receiver's: messages from its place in turns on are refused for now
)

// origin is the GID of the sender at the same place of the sender table, written
// before its first packet. It is not part of that table, because the owner's
// watcher reads all of that now and then.
type origin [2]atomic.Uint64

func (o *origin) store(g device.GID) {
	o[0].Store(binary.NativeEndian.Uint64(g[:]))
	o[1].Store(binary.NativeEndian.Uint64(g[8:]))
}

func (o *origin) load() (g device.GID) {
	binary.NativeEndian.PutUint64(g[:], o[0].Load())
	binary.NativeEndian.PutUint64(g[8:], o[1].Load())
	return g
}

// cell holds the state of the post at the same place of the ring, and the packet
// itself if it is short, so that the transfer of one cache line moves all of it. It
// is the only line that a receiver reads while it waits; if the posts were there,
// too, each claim would take the line away from the sender once more before it can
// publish.
type cell struct {
	word   atomic.Uint64
	inline [inlineMax]byte
}

// geometry is computed from the sizes in a header.
type geometry struct {
	mtu, slots, stride int
	cells              int // a power of two, not below slots
}

func newGeometry(mtu, slots int) (geometry, error) {
	if mtu < minMTU || mtu > maxMTU || slots < 1 || slots > maxDepth {
		return geometry{}, fmt.Errorf("%w: %d slots of %d bytes", ErrConfig, slots, mtu)
	}
	return geometry{
		mtu: mtu, slots: slots, stride: (mtu + 63) &^ 63,
		cells: 1 << bits.Len(uint(slots-1)),
	}, nil
}

func (g geometry) cellsAt() int { return (postsAt + g.cells*8 + pairBytes - 1) &^ (pairBytes - 1) }
func (g geometry) slotsAt() int { return g.cellsAt() + g.cells*pairBytes }
func (g geometry) size() int    { return g.slotsAt() + g.slots*g.stride }

// ring is a segment's memory by its parts. The memory may be mapped or from Go's
// heap, where tests have it for the race detector.
type ring struct {
	geometry
	shift   uint
	turn    uint // post: the place is turned left by so many bits,
	back    uint // which is right by so many
	mask    uint64
	ctl     *control
	senders *[maxSenders]sender
	origins []origin
	turns   []atomic.Uint32
	windows []windowEntry
	posts   []atomic.Uint64
	cell    []cell
	slot    []byte
}

// newRing lays a ring over mem. Preconditions: len(mem) >= g.size(), 8-byte
// aligned.
func newRing(mem []byte, g geometry) ring {
	shift, turn, back := uint(bits.Len(uint(g.cells))-1), uint(0), uint(63)
	if shift >= 6 {
		turn, back = 3, shift-3
	}
	return ring{
		geometry: g,
		shift:    shift, turn: turn, back: back,
		mask:    uint64(g.cells - 1),
		ctl:     (*control)(unsafe.Pointer(&mem[headerBytes])),
		senders: (*[maxSenders]sender)(unsafe.Pointer(&mem[sendersAt])),
		origins: unsafe.Slice((*origin)(unsafe.Pointer(&mem[originsAt])), maxSenders),
		turns:   unsafe.Slice((*atomic.Uint32)(unsafe.Pointer(&mem[turnsAt])), maxSenders),
		windows: unsafe.Slice((*windowEntry)(unsafe.Pointer(&mem[windowsAt])), maxWindows),
		posts:   unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(&mem[postsAt])), g.cells),
		cell:    unsafe.Slice((*cell)(unsafe.Pointer(&mem[g.cellsAt()])), g.cells),
		slot:    mem[g.slotsAt():g.size():g.size()],
	}
}

func (r *ring) lap(pos uint64) uint16 { return uint16(pos >> (r.shift & 63)) }

// post is the post of place i.
func (r *ring) post(i uint64) *atomic.Uint64 { return &r.posts[r.place(i)] }

// place is where in posts the post of place i lies. Neighbours lie in different cache lines:
// the receiver posts at the places that it has just taken from, and the sender should have the
// next one in its cache by then.
func (r *ring) place(i uint64) uint64 {
	return i>>(r.back&63) | i<<(r.turn&63)&r.mask
}

func (r *ring) slotBytes(slot int) []byte {
	off := slot * r.stride
	return r.slot[off : off+r.mtu : off+r.mtu]
}

// lineOf is the beginning of a slot, where what came in the first line of a cell goes.
func (r *ring) lineOf(slot uint16) *[lineMax]byte {
	off := int(slot) * r.stride
	return (*[lineMax]byte)(r.slot[off : off+lineMax : off+lineMax])
}

// headerOf is the header at the start of a mapping.
func headerOf(mem []byte) *header { return (*header)(unsafe.Pointer(&mem[0])) }

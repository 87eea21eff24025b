package shm

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/efactor/efactor/actors/device"
)

// A segment: the header in its file, and all of this in its memory. Words that different
// sides write are at least two cache lines apart, since processors fetch lines in pairs:
//
//	0      header    written before the segment has a name, then constant
//	128    control   three words, 128 bytes each
//	512    senders   the queue pairs that send here, 16 bytes each
//	...    origins   from which GID, in the same order, 16 bytes each
//	...    heldFrom  from which message on one that is held back is refused, 4 bytes each
//	...    windows   what is lent for a while, 32 bytes each
//	...    posts     the ring of posted receives, 8 bytes each
//	...    cells     what came for them, 128 bytes each
//	...    slots     the receive buffers, an MTU each, rounded up to 64
const (
	magic   = 0x6d68732d61666531 // "1efa-shm"
	version = 7

	pairBytes  = 128
	inlineMax  = pairBytes - 8
	lineMax    = 48 // so many of them lie in one cache line with the word; a slot is longer
	maxSenders = 1 << 12

	headerBytes  = pairBytes
	controlBytes = 3 * pairBytes
	sendersAt    = headerBytes + controlBytes
	originsAt    = sendersAt + maxSenders*16
	heldFromAt   = originsAt + maxSenders*16
	windowsAt    = heldFromAt + maxSenders*4
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

// The values of control.state. A sleep has the value parked and its number above the lowest three bits. A process that has
// something for the owner adds ringing, rings its doorbell, and sets running if that sleep lasts, so that others need not
// ring. Until then they do, so nothing is lost if the process stands still, or dies, in between. The owner learns from
// ringing that its doorbell is to be emptied, although it may wake before the process has set running.
const (
	running uint32 = iota // the receiver polls
	parked                // the owner sleeps
	closed                // its owner has closed it
	dead                  // its owner has died, according to the process that took the lock

	ringing    = 4 // added to parked
	sleepShift = 3
)

// control holds the words that are outside the cells.
type control struct {
	state    atomic.Uint32
	asked    atomic.Uint32 // counted up by a process that enters the sender table, or doubts that the owner runs
	answered atomic.Uint32 // asked, as the owner has seen it
	_        [pairBytes - 12]byte
	posted   atomic.Uint64 // positions below it have been posted; the receiver's
	_        [pairBytes - 8]byte
	tail     atomic.Uint64 // positions below it have been claimed; a hint
	_        [pairBytes - 8]byte
}

// senderEntry is an entry of the sender table: claimed by CASing who from 0, and
// complete before the sender's first packet. Only the receiver frees it.
type senderEntry struct {
	who   atomic.Uint64 // an ident
	qkey  atomic.Uint32
	flags atomic.Uint32
}

// The flags of a sender.
const (
	bye      uint32 = 1 << iota // its own: it has left in order, its end is not reported as a death
	heldBack                    // the receiver's: messages from its place in heldFrom on are refused for now
	shutOut                     // the receiver's: everything is refused
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
	shift      uint
	rotate     uint // post: its index is rotated left by so many bits,
	rotateBack uint // which is right by so many
	mask       uint64
	ctl        *control
	senders    *[maxSenders]senderEntry
	origins    []origin
	heldFrom   []atomic.Uint32
	windows    []windowEntry
	posts      []atomic.Uint64
	cell       []cell
	slot       []byte
}

// newRing lays a ring over mem. Preconditions: len(mem) >= g.size(), 8-byte
// aligned.
func newRing(mem []byte, g geometry) ring {
	shift, rotate, back := uint(bits.Len(uint(g.cells))-1), uint(0), uint(63)
	if shift >= 6 {
		rotate, back = 3, shift-3
	}
	return ring{
		geometry: g,
		shift:    shift, rotate: rotate, rotateBack: back,
		mask:     uint64(g.cells - 1),
		ctl:      (*control)(unsafe.Pointer(&mem[headerBytes])),
		senders:  (*[maxSenders]senderEntry)(unsafe.Pointer(&mem[sendersAt])),
		origins:  unsafe.Slice((*origin)(unsafe.Pointer(&mem[originsAt])), maxSenders),
		heldFrom: unsafe.Slice((*atomic.Uint32)(unsafe.Pointer(&mem[heldFromAt])), maxSenders),
		windows:  unsafe.Slice((*windowEntry)(unsafe.Pointer(&mem[windowsAt])), maxWindows),
		posts:    unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(&mem[postsAt])), g.cells),
		cell:     unsafe.Slice((*cell)(unsafe.Pointer(&mem[g.cellsAt()])), g.cells),
		slot:     mem[g.slotsAt():g.size():g.size()],
	}
}

func (r *ring) lap(pos uint64) uint16 { return uint16(pos >> (r.shift & 63)) }

// post is the post of place i.
func (r *ring) post(i uint64) *atomic.Uint64 { return &r.posts[r.postIndex(i)] }

// postIndex is where in posts the post of place i lies. Neighbours lie in different cache lines:
// the receiver posts at the places that it has just taken from, and the sender should have the
// next one in its cache by then.
func (r *ring) postIndex(i uint64) uint64 {
	return i>>(r.rotateBack&63) | i<<(r.rotate&63)&r.mask
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

// kind is what a word says.
type kind uint8

// A post's states within one lap of the ring, and where the packet lies:
//
//	      receiver              sender               sender
//	idle -----------> posted -----------> claimed             post
//	       store                CAS
//	                                       -----------> ready cell
//	                                          store
//
// The receiver takes a packet without writing: only it needs to know that the place
// is free, and stores posted with the next lap when it reuses it.
const (
	idle kind = iota
	posted
	claimed
	ready
)

// word holds all state of a post or a cell at once:
//
//	63      48 47      32 31      16  15    14  13          2 1    0
//	+---------+----------+----------+-----+----+--------------+------+
//	|   lap   |  length  |   slot   | imm | wr |    sender    | kind |
//	+---------+----------+----------+-----+----+--------------+------+
//
// imm and wr: the flags of the packet, below.
type word uint64

// The bits of a word that stay the same from the post to the packet, and those of its kind.
const (
	lapSlotBits word = 0xffff<<48 | 0xffff<<16
	stateBits   word = 0xffff<<48 | 3
	postBits         = lapSlotBits | stateBits
)

func makeWord(k kind, lap, length, slot uint16, sender int) word {
	return word(lap)<<48 | word(length)<<32 | word(slot)<<16 | word(sender)<<2 | word(k)
}

// is reports whether w is of a kind and a lap.
func (w word) is(k kind, lap uint16) bool { return w&stateBits == word(lap)<<48|word(k) }

// by is the word that follows w: of the same lap and slot, by a sender.
func (w word) by(sender int, k kind) word { return w&lapSlotBits | word(sender)<<2 | word(k) }

func (w word) kind() kind   { return kind(w & 3) }
func (w word) sender() int  { return int(w >> 2 & (maxSenders - 1)) }
func (w word) slot() uint16 { return uint16(w >> 16) }
func (w word) length() int  { return int(w >> 32 & 0xffff) }
func (w word) lap() uint16  { return uint16(w >> 48) }
func (w word) String() string {
	return fmt.Sprintf("%s lap=%d", [...]string{"idle", "posted", "claimed", "ready"}[w.kind()], w.lap())
}

// ident names a queue pair for as long as the host runs: its number and the
// generation of its segment. As a word of the sender table it is claimed with one
// CAS; 0 is none.
//
//	63             17 16      1  0
//	+----------------+--------+---+
//	|   generation   |  qpn   | 1 |
//	+----------------+--------+---+
type ident uint64

// maxGen bounds a generation.
const maxGen = 1<<47 - 1

func makeIdent(qpn uint16, gen uint64) ident { return ident(gen<<17 | uint64(qpn)<<1 | 1) }
func (i ident) qpn() uint16                  { return uint16(i >> 1) }
func (i ident) gen() uint64                  { return uint64(i >> 17) }
func (i ident) valid() bool                  { return i&1 != 0 && i>>17 != 0 && i&0x1fffe != 0 }

// The flags of a packet: its properties besides its bytes, as bits of its word.
const (
	// withImm: the last bytes of the cell hold an immediate.
	withImm word = 1 << 15
	// written: the packet is the note that follows the data of a write with
	// immediate. It takes a posted slot, as on a device without unsolicited writes,
	// and holds the number of bytes written, or of the whole write (SendWR.Whole). They were stored before the note was
	// published.
	written word = 1 << 14

	immBytes  = 4
	noteBytes = 8
)

// room is how many bytes of a packet a cell holds.
func (w word) room() int {
	if w&withImm != 0 {
		return inlineMax - immBytes
	}
	return inlineMax
}

// flagsOf are the flags of a send.
func flagsOf(wr *device.SendWR) word {
	if wr.HasImm {
		return withImm
	}
	return 0
}

func putNote(b *[noteBytes]byte, bytes int) { binary.LittleEndian.PutUint64(b[:], uint64(bytes)) }

// parseNote reads a note; false: it is invalid.
func parseNote(b []byte) (bytes int, ok bool) {
	if len(b) != noteBytes {
		return 0, false
	}
	n := binary.LittleEndian.Uint64(b)
	return int(n), n <= math.MaxUint32
}

// maxWindows bounds the memory windows of a queue pair. One is found at the place that the
// low bits of its key name, so keys are drawn until that place is free.
const maxWindows = 1 << 10

// windowEntry is an entry of a segment's table of windows: bytes of a region that
// may be read by a key of their own, through this queue pair. The owner
// writes the key last, and takes it out first; a reader that finds it unchanged after its copy
// has read what was lent.
type windowEntry struct {
	key    atomic.Uint64 // 0: there is none
	region atomic.Uint64 // the key of the region
	addr   atomic.Uint64 // remote address of the first byte
	size   atomic.Uint64
}

// grant is why an RDMA request may use a region.
type grant struct {
	dom    uint64       // it is of this device, and its owner has given the right to all;
	window *windowEntry // or there is a window with this key
	key    uint64
}

// allows reports whether a request may use a region with this header.
func (g *grant) allows(h *regionHeader, a device.Access) bool {
	return h.dom == g.dom && (g.window != nil || h.allows(a))
}

// valid reports whether the window is still there, if the request goes by one.
func (g *grant) valid() bool { return g.window == nil || g.window.key.Load() == g.key }

// willWrite and willRead are the prefetches for a typed word.
func willWrite(p *atomic.Uint64) { prefetchWrite((*uint64)(unsafe.Pointer(p))) }
func willRead(p *atomic.Uint64)  { prefetchRead((*uint64)(unsafe.Pointer(p))) }

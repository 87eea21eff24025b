package nic

import (
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/sys"
)

// Source names the queue pair that a packet comes from.
type Source struct {
	GID device.GID
	QPN uint16

	// Unknown delivers the packet without address handle, even if there is one.
	Unknown bool
}

// Inbox receives the packets and statuses for one queue pair, for carriers inside
// one process: the other side calls Place, RDMA, Ack and Gone, the queue pair's
// owner the rest. It locks itself unless it was made Single.
//
// The lock is held for a copy of one packet at most, and is not needed to find an
// inbox empty.
type Inbox struct {
	qkey   uint32
	mtu    int
	recv   []byte
	stride int
	notify func()
	single bool

	unsolicited bool
	limit       int // of loose

	ownArm bool          // the owner's: armed since its last Poll
	ready  atomic.Uint64 // 1: events is not empty; stored with the lock held, and looked at without
	mu     sync.Mutex

	// guarded by mu
	posted     []int32 // ring of posted slots, len is a power of two
	head, tail uint32
	events     []device.Completion
	next       int // first of events that was not polled
	loose      int // of those that were not polled: arrivals without a slot
	armed      bool
	closed     bool
	held       map[Source]uint32 // senders that are held back, from which turn on
}

// InboxConfig describes an Inbox.
type InboxConfig struct {
	QKey   uint32
	MTU    int
	Slots  int
	Recv   []byte // as in Config
	Stride int
	Events int    // statuses expected at once besides Slots arrivals
	Notify func() // may be nil
	Single bool   // one goroutine makes all calls

	// Unsolicited: writes with immediate take no slot.
	Unsolicited bool
}

// NewInbox returns an open inbox with nothing posted.
func NewInbox(c InboxConfig) *Inbox {
	size := 1
	for size < c.Slots {
		size <<= 1
	}
	extra := 0
	if c.Unsolicited {
		extra = c.Slots
	}
	return &Inbox{
		qkey: c.QKey, mtu: c.MTU, recv: c.Recv, stride: c.Stride, notify: c.Notify, single: c.Single,
		posted: make([]int32, size),
		events: make([]device.Completion, 0, 2*(c.Slots+c.Events+extra)+1),
		limit:  c.Slots, unsolicited: c.Unsolicited,
	}
}

func (b *Inbox) lock() {
	if !b.single {
		b.mu.Lock()
	}
}

func (b *Inbox) unlock() {
	if !b.single {
		b.mu.Unlock()
	}
}

// disarm reports whether the owner must be notified: it had armed the queue pair.
func (b *Inbox) disarm() bool {
	was := b.armed
	b.armed = false
	return was && b.notify != nil
}

// Wake notifies the owner if it armed the queue pair, and disarms.
func (b *Inbox) Wake() {
	b.lock()
	notify := b.disarm()
	b.unlock()
	if notify {
		b.notify()
	}
}

// Poll implements Carrier's Poll for the inbox.
func (b *Inbox) Poll(c []device.Completion) int {
	if b.ready.Load() == 0 && !b.ownArm {
		return 0
	}
	b.ownArm = false
	b.lock()
	b.armed = false
	n := copy(c, b.events[b.next:])
	b.next += n
	if b.loose > 0 {
		b.countLoose(c[:n])
	}
	if b.next == len(b.events) {
		b.events, b.next = b.events[:0], 0
		sys.StoreRelease(&b.ready, 0)
	}
	b.unlock()
	return n
}

// PostRecv implements Carrier's PostRecv. There are never more posted slots than
// Slots, since QP lets each be posted once.
func (b *Inbox) PostRecv(slots []int32) {
	b.lock()
	for _, s := range slots {
		b.posted[b.tail&uint32(len(b.posted)-1)] = s
		b.tail++
	}
	b.unlock()
}

// HoldBack implements Holder.
func (b *Inbox) HoldBack(from Source, on bool, turn uint32) {
	from.Unknown = false
	b.lock()
	defer b.unlock()
	if !on {
		delete(b.held, from)
		return
	}
	if b.held == nil {
		b.held = make(map[Source]uint32)
	}
	b.held[from] = turn
}

// holds reports whether packets of a message of from are refused. Precondition: b is locked.
func (b *Inbox) holds(from *Source, turn uint32) bool {
	first, ok := b.held[Source{GID: from.GID, QPN: from.QPN}]
	return ok && int32(turn-first) >= 0
}

// Posted returns the number of posted slots.
func (b *Inbox) Posted() int {
	b.lock()
	n := int(b.tail - b.head)
	b.unlock()
	return n
}

// Arm implements Carrier's Arm for the inbox.
func (b *Inbox) Arm() bool {
	b.lock()
	ok := !b.closed && b.next == len(b.events)
	b.armed, b.ownArm = ok, ok
	b.unlock()
	return ok
}

// Armed reports whether the owner sleeps, or is about to.
func (b *Inbox) Armed() bool {
	b.lock()
	armed := b.armed
	b.unlock()
	return armed
}

// Close refuses later packets and drops events that were not polled. No slot is
// written afterwards.
func (b *Inbox) Close() {
	b.lock()
	b.closed, b.armed = true, false
	b.events, b.next, b.loose = nil, 0, 0
	b.head = b.tail
	sys.StoreRelease(&b.ready, 0)
	b.unlock()
}

package nic

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/sys"
)

// Source names the queue pair that a packet comes from.
type Source struct {
	GID  device.GID
	QPN  uint16
	QKey uint32 // its own; 0: not said

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
	limit       int // of slotless

	ownArm bool          // the owner's: armed since its last Poll
	ready  atomic.Uint64 // 1: events is not empty; stored with the lock held, and looked at without
	mu     sync.Mutex

	// guarded by mu
	posted     []int32 // ring of posted slots, len is a power of two
	head, tail uint32
	events     []device.Completion
	next       int // first of events that was not polled
	slotless   int // of those that were not polled: arrivals without a slot
	armed      bool
	closed     bool
	held       map[Source]uint32   // senders that are held back, from which turn on; by GID and QPN alone
	out        map[Source]struct{} // senders that are shut out
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

// Place copies the packet of a WRSend into a posted slot. The status is the
// sender's: OK, RNR, BadDestQPN (closed, or wr.QKey is not ours) or
// RemoteBadLength.
func (b *Inbox) Place(from *Source, wr *device.SendWR) device.Status {
	b.lock()
	switch {
	case b.closed || wr.QKey != b.qkey:
		b.unlock()
		return device.StatusBadDestQPN
	case len(wr.Header)+len(wr.Payload) > b.mtu:
		b.unlock()
		return device.StatusRemoteBadLength
	case len(b.out) > 0 && b.shuts(from):
		b.unlock()
		return device.StatusUnknownPeer
	case b.head == b.tail, wr.Begins && len(b.held) > 0 && b.holds(from, wr.MsgID):
		b.unlock()
		return device.StatusRNR
	}
	slot := uint64(b.takeSlot())
	if buf := b.slot(slot); len(buf) < ShortRoom || !PutShort((*[ShortRoom]byte)(buf), wr) {
		copy(buf[copy(buf, wr.Header):], wr.Payload)
	}
	e := b.add()
	e.ID, e.Op, e.Len = slot, device.OpRecv, len(wr.Header)+len(wr.Payload)
	e.HasImm, e.Imm = wr.HasImm, wr.Imm
	sign(e, from)
	b.publish()
	return device.StatusOK
}

// RDMA performs the receiver's part of a WRRead or WRWrite: it moves the bytes
// between wr.Payload and a region of its device, without the lock, and reports the
// completion if there is one. The status is the requester's: OK, BadDestQPN as for
// Place, BadAddress, or RNR of a write with immediate for which nothing was posted
// (or, if unsolicited, too many were not polled).
func (b *Inbox) RDMA(from *Source, wr *device.SendWR, regions *Regions) device.Status {
	b.lock()
	shut, out := b.closed || wr.QKey != b.qkey, len(b.out) > 0 && b.shuts(from)
	b.unlock()
	switch {
	case shut:
		return device.StatusBadDestQPN
	case out:
		return device.StatusUnknownPeer
	}
	r, mem := regions.Hold(wr.RKey, wr.Remote, len(wr.Payload), RemoteAccess(wr.Kind))
	if r == nil {
		b.refuse(from, wr.RKey, regions.Knows(wr.RKey))
		return device.StatusBadAddress
	}
	defer r.Release()
	slot := device.NoSlot
	if wr.HasImm {
		var st device.Status
		if slot, st = b.reserve(); st != device.StatusOK {
			return st
		}
	}
	if wr.Kind == device.WRRead {
		copy(wr.Payload, mem)
	} else {
		copy(mem, wr.Payload)
	}
	if wr.HasImm {
		return b.written(from, wr, slot)
	}
	return device.StatusOK
}

// reserve takes a place for the completion of a write with immediate: a slot, or
// room among those without a slot.
func (b *Inbox) reserve() (uint64, device.Status) {
	b.lock()
	defer b.unlock()
	switch {
	case b.closed:
		return 0, device.StatusBadDestQPN
	case b.unsolicited && b.slotless >= b.limit, !b.unsolicited && b.head == b.tail:
		return 0, device.StatusRNR
	case b.unsolicited:
		b.slotless++
		return device.NoSlot, device.StatusOK
	}
	return uint64(b.takeSlot()), device.StatusOK
}

// written reports a write with immediate whose bytes are in place.
func (b *Inbox) written(from *Source, wr *device.SendWR, slot uint64) device.Status {
	b.lock()
	if b.closed {
		b.unlock()
		return device.StatusBadDestQPN
	}
	e := b.add()
	e.ID, e.Op, e.Len = slot, device.OpWritten, max(len(wr.Payload), int(wr.Whole))
	e.HasImm, e.Imm = true, wr.Imm
	sign(e, from)
	b.publish()
	return device.StatusOK
}

// refuse reports that a request of from for a region key, which is or was known here, was refused,
// unless many such reports wait already.
func (b *Inbox) refuse(from *Source, key uint64, known bool) {
	b.lock()
	if b.closed || b.slotless >= b.limit {
		b.unlock()
		return
	}
	b.slotless++
	e := b.add()
	e.Op, e.ID, e.Status = device.OpRefused, key, device.RefusalOf(known)
	sign(e, from)
	b.publish()
}

// Ack delivers the late status of a send (Carrier.Send's Pending).
func (b *Inbox) Ack(token uint64, st device.Status) {
	b.put(device.Completion{Op: device.OpSend, ID: token, Status: st})
}

// Gone reports to the owner that the queue pair from is dead. Its Q_Key was qkey.
func (b *Inbox) Gone(from *Source, qkey uint32) {
	b.letIn(from, qkey)
	b.put(device.Completion{Op: device.OpGone, SrcQPN: from.QPN, SrcGID: from.GID, QKey: qkey})
}

// Left reports to the owner that the queue pair from, whose Q_Key was qkey, was closed in
// order.
func (b *Inbox) Left(from *Source, qkey uint32) {
	b.letIn(from, qkey)
	b.put(device.Completion{Op: device.OpGone, SrcQPN: from.QPN, SrcGID: from.GID, QKey: qkey, Left: true})
}

// HoldBack implements Holder.
func (b *Inbox) HoldBack(from Source, on bool, turn uint32) {
	from.Unknown, from.QKey = false, 0
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

// Shut implements Holder.
func (b *Inbox) Shut(from Source) {
	from.Unknown = false
	b.lock()
	defer b.unlock()
	if b.out == nil {
		b.out = make(map[Source]struct{})
	}
	b.out[from] = struct{}{}
}

// shuts reports whether everything of from is refused. Precondition: b is locked.
func (b *Inbox) shuts(from *Source) bool {
	_, ok := b.out[Source{GID: from.GID, QPN: from.QPN, QKey: from.QKey}]
	return ok
}

// letIn forgets what Shut has noted: the queue pair is gone.
func (b *Inbox) letIn(from *Source, qkey uint32) {
	b.lock()
	delete(b.out, Source{GID: from.GID, QPN: from.QPN, QKey: qkey})
	b.unlock()
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
	if b.slotless > 0 {
		b.countSlotless(c[:n])
	}
	if b.next == len(b.events) {
		b.events, b.next = b.events[:0], 0
		sys.StoreRelease(&b.ready, 0)
	}
	b.unlock()
	return n
}

// countSlotless notes that c was polled.
func (b *Inbox) countSlotless(c []device.Completion) {
	for i := range c {
		if op := c[i].Op; op == device.OpRefused || op == device.OpWritten && c[i].ID == device.NoSlot {
			b.slotless--
		}
	}
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

// Wake notifies the owner if it armed the queue pair, and disarms.
func (b *Inbox) Wake() {
	b.lock()
	notify := b.disarm()
	b.unlock()
	if notify {
		b.notify()
	}
}

// Close refuses later packets and drops events that were not polled. No slot is
// written afterwards.
func (b *Inbox) Close() {
	b.lock()
	b.closed, b.armed = true, false
	b.events, b.next, b.slotless = nil, 0, 0
	b.head = b.tail
	sys.StoreRelease(&b.ready, 0)
	b.unlock()
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

// takeSlot takes a posted slot. Preconditions: there is one, and b is locked.
func (b *Inbox) takeSlot() int32 {
	slot := b.posted[b.head&uint32(len(b.posted)-1)]
	b.head++
	return slot
}

// slot is the memory of a slot.
func (b *Inbox) slot(slot uint64) []byte {
	at := int(slot) * b.stride
	return b.recv[at : at+b.mtu : at+b.mtu]
}

// sign enters the sender in an event.
func sign(e *device.Completion, from *Source) {
	e.SrcQPN = from.QPN
	e.SrcGID = from.GID
	if from.Unknown {
		e.AH = device.UnknownAH
	}
}

func (b *Inbox) put(c device.Completion) {
	b.lock()
	if b.closed {
		b.unlock()
		return
	}
	*b.add() = c
	b.publish()
}

// add is a new event, which is empty. Preconditions: b is locked; publish follows.
func (b *Inbox) add() *device.Completion {
	n := len(b.events)
	if n == cap(b.events) {
		n = b.enlarge()
	}
	b.events = b.events[:n+1]
	e := &b.events[n]
	*e = device.Completion{}
	return e
}

// enlarge makes room for one more event and returns how many there are.
// There are at most as many unread events as slots, pending sends, arrivals without
// a slot (of which there are no more than slots) and deaths, so the list stops
// growing; twice that room keeps the moves to the front rare.
func (b *Inbox) enlarge() int {
	if b.next > 0 {
		n := copy(b.events, b.events[b.next:])
		b.events, b.next = b.events[:n], 0
	}
	b.events = slices.Grow(b.events, 1)
	return len(b.events)
}

// publish shows the owner what was added, unlocks, and wakes the owner if it sleeps.
func (b *Inbox) publish() {
	sys.StoreRelease(&b.ready, 1)
	notify := b.disarm()
	if !b.single {
		b.mu.Unlock()
	}
	if notify {
		b.notify()
	}
}

// disarm reports whether the owner must be notified: it had armed the queue pair.
func (b *Inbox) disarm() bool {
	was := b.armed
	b.armed = false
	return was && b.notify != nil
}

const (
	shortHead    = 32 // an ordinary header is not longer
	shortPayload = 16

	// ShortRoom is how much of the place of a packet PutShort needs.
	ShortRoom = shortHead + shortPayload
)

// PutShort copies the packet of a WRSend to the beginning of b, and something behind it, if it is an ordinary
// one of a few bytes: with a payload of 8 to 16, and a header that lies in a larger array. Otherwise it reports
// false. Copies of a size that the compiler knows are a few moves, where copy is a call that first finds out how
// much there is.
func PutShort(b *[ShortRoom]byte, wr *device.SendWR) bool {
	h, p := wr.Header, wr.Payload
	n := len(p)
	if n < 8 || n > shortPayload || len(h) > shortHead || cap(h) < shortHead {
		return false
	}
	head := *(*[shortHead]byte)(h[:shortHead])
	*(*[shortHead]byte)(b[:]) = head // the payload takes the place of what is not the header's
	first, last := binary.NativeEndian.Uint64(p), binary.NativeEndian.Uint64(p[n-8:])
	dst := (*[shortPayload]byte)(b[len(h):])
	binary.NativeEndian.PutUint64(dst[:], first)
	binary.NativeEndian.PutUint64(dst[n-8:], last)
	return true
}

package device

import (
	"errors"
	"fmt"

	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// The way of an outgoing packet: Alloc takes an entry, its owner fills it, Post gives it to the
// device, and the actor that learns of its end frees it. Without room, actors wait by a SlotWait,
// and a packet that was refused parks.

// MaxHeader is the room for a header in a packet entry: the largest mandatory
// header with all optional ones (§3.1) and four rma_iov.
const MaxHeader = 256

// Pke is an outgoing packet entry: it lives from [Queue.Alloc] until
// [Queue.Free] and counts against the send queue all that time, also while its
// packet waits to be sent again after RNR.
type Pke struct {
	// Owner gets [SendDone] when the packet has arrived.
	Owner shard.Ref
	// Peer gets [SendProblem] for anything else, and passes it on.
	Peer shard.Ref
	// Watch makes Peer hear of success, too: it left or may leave back-off.
	Watch bool
	// PutOff: the receiver holds us back, the packet is counted by the peer.
	PutOff bool
	// Turn is the msg_id of a message's packet.
	MsgID uint32
	// Resent is libfabric's RNR_RETRANSMIT flag: RNR came once already.
	Resent bool

	Bytes int    // of the message in this packet
	Off   uint64 // where they begin in it
	Span  uint64 // of the operation, for its observer

	// Next chains entries in a list of their present holder.
	Next *Pke

	wr      SendWR
	hdr     [MaxHeader]byte
	bounce  []byte
	done    SendDone
	problem SendProblem
	out     bool // the device has it
	parked  bool // it has no place in the send queue
	queue   *Queue
}

// Header is the empty slice into which the packet's header is appended.
func (p *Pke) Header() []byte { return p.hdr[:0:MaxHeader] }

// To sets where the packet goes.
func (p *Pke) To(ah AH, qpn uint16, qkey uint32) {
	p.wr.AH, p.wr.QPN, p.wr.QKey = ah, qpn, qkey
}

// Fill sets what the packet holds. The payload stays the caller's until the
// completion.
func (p *Pke) Fill(header, payload []byte) {
	if len(header) == 0 {
		p.hdr[0] = 0
	}
	p.wr.Header, p.wr.Payload = header, payload
	p.Bytes = len(payload)
}

// Carry makes b the payload of an entry that has its header. It stays the caller's until the
// completion.
func (p *Pke) Carry(b []byte) {
	p.wr.Payload = b
	p.Bytes = len(b)
}

// Append copies b to the end of the payload, which is what Append made of it since Carry of
// nothing.
func (p *Pke) Append(b []byte) {
	if p.Bytes == 0 {
		p.bounce = p.bounce[:0]
	}
	p.bounce = append(p.bounce, b...)
	p.wr.Payload, p.Bytes = p.bounce, len(p.bounce)
}

// Gather makes pieces the payload, copied one after the other.
func (p *Pke) Gather(header []byte, pieces ...[]byte) {
	p.bounce = p.bounce[:0]
	for _, b := range pieces {
		p.bounce = append(p.bounce, b...)
	}
	p.Fill(header, p.bounce)
}

// Detach copies the payload into the entry, so that the caller's buffer is free
// although the packet may have to be sent again.
func (p *Pke) Detach() {
	if len(p.wr.Payload) == 0 || p.wr.Kind != WRSend {
		return
	}
	if cap(p.bounce) < len(p.wr.Payload) {
		p.bounce = make([]byte, len(p.wr.Payload))
	}
	p.bounce = p.bounce[:len(p.wr.Payload)]
	copy(p.bounce, p.wr.Payload)
	p.wr.Payload, p.wr.LKey = p.bounce, 0
}

// Stay says whether the payload stays as it is until Flush of the queue, or Ring.
func (p *Pke) Stay(on bool) { p.wr.Stays = on }

// From has a device that gathers take the payload from its place, in the region lkey.
func (p *Pke) From(lkey uint32) { p.wr.LKey = lkey }

// SetImm adds remote CQ data to what the entry holds.
func (p *Pke) SetImm(v uint32) { p.wr.HasImm, p.wr.Imm = true, v }

// FillRDMA makes the entry an RDMA request: a WRRead into local or a WRWrite of
// it, with lkey naming its region where the device wants that. Len bytes of the
// message are in it, like in a packet.
func (p *Pke) FillRDMA(kind WR, local []byte, lkey uint32, remote, rkey uint64) {
	p.hdr[0] = 0
	p.wr.Kind, p.wr.Header, p.wr.Payload = kind, nil, local
	p.wr.LKey, p.wr.Remote, p.wr.RKey = lkey, remote, rkey
	p.Bytes = len(local)
}

// Begins reports whether the packet is of a message, which the receiver can put off.
func (p *Pke) Begins() bool { return p.wr.Begins }

// Kind is what the entry holds.
func (p *Pke) Kind() WR { return p.wr.Kind }

// Local is the payload of a packet, or the local side of RDMA.
func (p *Pke) Local() []byte { return p.wr.Payload }

// Len is the packet's whole length.
func (p *Pke) Len() int { return len(p.wr.Header) + len(p.wr.Payload) }

// Type is the packet's type byte; 0 of an RDMA request, and without a header.
func (p *Pke) Type() uint8 { return p.hdr[0] }

// Parked reports whether the packet has no place in the send queue. It may be posted when
// there is room.
func (p *Pke) Parked() bool { return p.parked }

// Done is the message with which a peer hands a finished entry to its owner.
func (p *Pke) Done() *SendDone { return &p.done }

// SendDone says that a packet reached the other side. The receiver of this
// message frees the entry.
type SendDone struct {
	shard.Message
	Pke *Pke
}

// SendProblem says that a packet did not reach the other side, or that one which
// is watched did (StatusOK). The peer resends it or passes it on as SendFailed.
type SendProblem struct {
	shard.Message
	Pke    *Pke
	Status Status
}

// begins has the types of packets that are of messages, which the receiver can put off.
var begins = func() (t [256]bool) {
	for i := range t {
		t[i] = wire.Type(i).HasMsgID() && wire.Type(i).IsREQ()
	}
	return t
}()

// The way of an outgoing packet: Alloc takes an entry, its owner fills it (pke.go), Post gives it
// to the device, and the actor that learns of its end frees it. Without room, actors wait by a
// SlotWait, and a packet that was refused parks.

// Alloc takes a packet entry, or nil if the send queue is full: then wait with
// AwaitSlot.
func (q *Queue) Alloc() *Pke {
	if q.room <= 0 {
		return nil
	}
	p := q.free // there are at least as many as there is room for
	q.free, p.Next = p.Next, nil
	q.room--
	return p
}

// Post hands a filled entry to the device. There are as many entries as places in
// the send queue; should a driver have none all the same, the packet waits for a
// completion.
func (q *Queue) Post(p *Pke) error {
	_, err := q.PostPrompt(p, false)
	return err
}

// PostPrompt is Post for an owner that, with prompt, can take the end of the packet at
// once: over says that it has arrived. There is no SendDone then, and the entry is the
// owner's. One that is watched ends as always.
func (q *Queue) PostPrompt(p *Pke, prompt bool) (over bool, err error) {
	p.wr.Prompt = prompt && !p.Watch
	return q.post(p)
}

func (q *Queue) post(p *Pke) (over bool, err error) {
	if p.parked {
		q.unpark(p)
	}
	if q.stalled.head != nil {
		q.stall(p)
		return false, nil
	}
	wr := &p.wr
	wr.Over, wr.MsgID, wr.Begins = false, p.MsgID, begins[p.hdr[0]]
	if wr.HasImm {
		wr.Begins = false
	}
	q.entered++
	err = q.qp.PostSend(wr)
	q.left++
	if err != nil {
		return false, q.unposted(p, err)
	}
	if wr.Over { // what has arrived needs no doorbell
		q.Counters.SendDone++
	} else {
		p.out, q.posted, q.flushDue = true, true, true
	}
	if wr.Kind != WRSend || p.Resent {
		q.Counters.other(p)
	} else {
		q.Counters.SendPosted++
		q.Counters.SendBytes += uint64(p.Len())
	}
	return wr.Over, nil
}

// unposted deals with a packet that the driver did not take. If this side is short of something for
// the moment, the first packet of an operation ends that with an error, since nothing of it has left. Later packets are
// sent again. An RDMA request ends with a status.
func (q *Queue) unposted(p *Pke, err error) error {
	switch {
	case errors.Is(err, ErrQueueFull):
		q.stall(p)
		return nil
	case p.Kind() == WRSend && wire.Type(p.Type()).IsREQ() && !p.Resent || !q.PutOff(p, err):
		return fmt.Errorf("post send: %w", err)
	default:
		return nil
	}
}

// SentAgain notes that the packet is posted once more.
func (p *Pke) SentAgain() { p.wr.Again = true }

// PutOff takes a packet which the driver did not take by an error that wraps ErrUnsent, and has its
// peer send it again after back-off, as if the receiver had not been ready; of RDMA the peer hears that it
// failed. False: it is another error, or the packet has no peer.
func (q *Queue) PutOff(p *Pke, err error) bool {
	if p.Peer.IsZero() || !errors.Is(err, ErrUnsent) {
		return false
	}
	if p.problem.Status = StatusRNR; p.Kind() != WRSend {
		p.problem.Status = StatusQPInternal
	}
	q.Counters.SendProblem++
	q.sh.Tell(p.Peer, &p.problem)
	return true
}

// Free gives an entry back. The packet must not be with the device.
func (q *Queue) Free(p *Pke) {
	p.Owner, p.Peer, p.Watch, p.Resent = shard.Ref{}, shard.Ref{}, false, false
	p.wr.Header, p.wr.Payload = nil, nil
	p.wr.Kind, p.wr.HasImm, p.wr.Again, p.wr.Stays, p.wr.LKey = WRSend, false, false, false, 0
	p.Next, q.free = q.free, p
	q.room++
	if p.parked {
		q.unpark(p)
	}
}

// FreePrompt is Free for a packet that was over when PostPrompt returned. Its entry has no owner and no peer yet,
// and no more than To, Fill, Stay and From were called for it, so little has to be cleared.
func (q *Queue) FreePrompt(p *Pke) {
	p.wr.LKey, p.wr.Payload, p.wr.Stays = 0, nil, false
	p.Next, q.free = q.free, p
	q.room++
}

// Room is how many entries Alloc would give.
func (q *Queue) Room() int { return q.room }

// Depth is the number of entries in all.
func (q *Queue) Depth() int { return len(q.pkes) }

// other counts what was posted and is RDMA, or a packet that is sent again.
func (c *QueueCounters) other(p *Pke) {
	if p.wr.Kind == WRSend {
		n := uint64(p.Len())
		c.SendPosted++
		c.SendBytes += n
		c.ResentTypes[p.Type()]++
		c.Resent++
		c.ResentBytes += n
		return
	}
	c.RDMAPosted++
	c.RDMABytes += uint64(p.Bytes)
	if p.wr.Kind == WRRead {
		c.RDMAReads++
		c.RDMAReadBytes += uint64(p.Bytes)
	}
}

// SlotWait is an actor's place in the queue for room in the send queue; the
// actor embeds it and gets a message when there is room. Control
// packets go first: they cannot be rebuilt.
type SlotWait struct {
	shard.Message
	To      shard.Ref
	next    *SlotWait
	Control bool
	queued  bool
}

type waitList struct{ head, tail *SlotWait }

// AwaitSlot puts w in the queue, once.
func (q *Queue) AwaitSlot(w *SlotWait) {
	if w.queued {
		return
	}
	q.Counters.SlotWaits++
	q.waiters++
	l := &q.data
	if w.Control {
		l = &q.control
	}
	w.queued, w.next = true, nil
	if l.tail == nil {
		l.head = w
	} else {
		l.tail.next = w
	}
	l.tail = w
}

// GiveRoom tells those who wait for room that there is some, and returns how many. Poll
// does that too, but who makes packets before Poll is called has to let them go first.
func (q *Queue) GiveRoom() int {
	q.gaveRoom = true
	if q.waiters == 0 {
		return 0
	}
	return q.wakeWaiters()
}

// wakeWaiters tells as many waiters as there is room for. They take it at once, before
// new packets do; one that needs more waits again, behind the others.
func (q *Queue) wakeWaiters() int {
	n := 0
	for most := q.room; n < most && q.room > 0; {
		l := &q.control
		if l.head == nil {
			l = &q.data
		}
		w := l.head
		if w == nil {
			break
		}
		if l.head = w.next; l.head == nil {
			l.tail = nil
		}
		w.next, w.queued = nil, false
		q.waiters--
		q.sh.Call(w.To, w)
		n++
	}
	return n
}

type pkeList struct{ head, tail *Pke }

// stall keeps a packet until the driver has room. Its owner learns of its end.
func (q *Queue) stall(p *Pke) {
	q.Counters.Stalled++
	p.Next, p.wr.Prompt = nil, false
	if q.stalled.tail == nil {
		q.stalled.head = p
	} else {
		q.stalled.tail.Next = p
	}
	q.stalled.tail = p
}

// unstall posts what had stalled, in order, and returns how many packets left.
func (q *Queue) unstall() int {
	n := 0
	rest := q.stalled
	q.stalled = pkeList{}
	for p := rest.head; p != nil; p = rest.head {
		rest.head, p.Next = p.Next, nil
		_, err := q.post(p)
		if q.stalled.head != nil { // there is still no room
			q.Counters.Stalled--
			if p.Next = rest.head; p.Next != nil {
				q.stalled.tail = rest.tail
			}
			break
		}
		n++
		if err != nil { // too late for an error of Post: it ends as a packet does
			p.problem.Status = StatusQPInternal
			q.Counters.SendProblem++
			q.sh.Tell(p.Peer, &p.problem)
		}
	}
	return n
}

// A packet that was refused waits for its peer's back-off to end. It must not keep a place in
// the send queue meanwhile: packets to others need it. So it gives its place up, and an entry
// of the reserve takes the place in the pool.

// maxReserve is how many entries there may be for each place in the send queue, beside those
// that have one. Of more refused packets the rest keep their places.
const maxReserve = 16

// reserve is the entries beside those of Queue.pkes, in slabs of the queue's depth.
type reserve struct {
	slabs  [][]Pke
	parked int
}

// Park gives up the place of a packet that the device does not have.
func (q *Queue) Park(p *Pke) {
	r, depth := &q.reserve, len(q.pkes)
	if p.parked || p.out {
		return
	}
	if r.parked >= len(r.slabs)*depth {
		if len(r.slabs) == maxReserve {
			return
		}
		slab := make([]Pke, depth)
		r.slabs = append(r.slabs, slab)
		q.addEntries(slab, len(r.slabs)*depth)
	}
	p.parked = true
	r.parked++
	q.room++
}

// unpark takes a place again.
func (q *Queue) unpark(p *Pke) {
	p.parked = false
	q.reserve.parked--
	q.room--
}

// addEntries puts entries into the pool, of which the first has the number base.
func (q *Queue) addEntries(slab []Pke, base int) {
	for i := len(slab) - 1; i >= 0; i-- {
		p := &slab[i]
		p.queue = q
		p.done.Pke, p.problem.Pke = p, p
		p.wr.ID = uint64(base + i)
		p.Next, q.free = q.free, p
	}
}

// entry is the entry of a number, nil if there is none.
func (q *Queue) entry(id uint64) *Pke {
	depth := uint64(len(q.pkes))
	if id < depth {
		return &q.pkes[id]
	}
	if slab := id/depth - 1; slab < uint64(len(q.reserve.slabs)) {
		return &q.reserve.slabs[slab][id%depth]
	}
	return nil
}

// each calls f for every entry until it returns false.
func (q *Queue) each(f func(*Pke) bool) {
	for i := range q.pkes {
		if !f(&q.pkes[i]) {
			return
		}
	}
	for _, slab := range q.reserve.slabs {
		for i := range slab {
			if !f(&slab[i]) {
				return
			}
		}
	}
}

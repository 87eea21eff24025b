package device

import (
	"errors"
	"fmt"

	"github.com/efactor/efactor/runtime/shard"
)

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

// unposted deals with a packet that the driver did not take.
func (q *Queue) unposted(p *Pke, err error) error {
	if errors.Is(err, ErrQueueFull) {
		q.stall(p)
		return nil
	}
	return fmt.Errorf("post send: %w", err)
}

// Free gives an entry back. The packet must not be with the device.
func (q *Queue) Free(p *Pke) {
	p.Owner, p.Peer, p.Watch, p.Resent = shard.Ref{}, shard.Ref{}, false, false
	p.wr.Header, p.wr.Payload = nil, nil
	p.wr.Kind, p.wr.HasImm, p.wr.LKey = WRSend, false, 0
	p.Next, q.free = q.free, p
	q.room++
	if p.parked {
		q.unpark(p)
	}
}

// FreePrompt is Free for a packet that was over when PostPrompt returned. Its entry has no owner and no peer yet,
// and no more than To, Fill and From were called for it, so little has to be cleared.
func (q *Queue) FreePrompt(p *Pke) {
	p.wr.LKey, p.wr.Payload = 0, nil
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

package device

// The way of an outgoing packet: Alloc takes an entry, its owner fills it, Post gives it to the
// device, and the actor that learns of its end frees it.

import (
	"errors"
	"fmt"

	"github.com/efactor/efactor/runtime/shard"
)

// GiveRoom tells those who wait for room that there is some, and returns how many. Poll
// does that too, but who makes packets before Poll is called has to let them go first.
func (q *Queue) GiveRoom() int {
	q.gaveRoom = true
	if q.waiters == 0 {
		return 0
	}
	return q.wakeWaiters()
}

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

// Header is the empty slice into which the packet's header is appended.
func (p *Pke) Header() []byte { return p.hdr[:0:MaxHeader] }

// Fill sets what the packet holds. The payload stays the caller's until the
// completion.
func (p *Pke) Fill(header, payload []byte) {
	if len(header) == 0 {
		p.hdr[0] = 0
	}
	p.wr.Header, p.wr.Payload = header, payload
	p.Bytes = len(payload)
}

// To sets where the packet goes.
func (p *Pke) To(ah AH, qpn uint16, qkey uint32) {
	p.wr.AH, p.wr.QPN, p.wr.QKey = ah, qpn, qkey
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
	wr.Over, wr.Turn, wr.Begins = false, p.Turn, begins[p.hdr[0]]
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

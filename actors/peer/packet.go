package peer

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// Header is what the headers of a received packet say. Fields that a type of packet does
// not have are zero.
type Header struct {
	wire.Eager // those that an eager message has, which most packets are

	Length  uint64 // of the whole message
	Offset  uint64 // of Payload in it
	Granted uint64 // CTS recv_length
	RecvID  uint32
	Errno   uint32       // PEER_ERROR prov_errno
	Ref     wire.RefKind // of PEER_ERROR
	Type    wire.Type
	Nack    bool // a LONGCTS in place of a read-based message (§4.7)
}

// Packet is a received packet, parsed. Its payload lies in the device's receive
// slot until Own copies it; Free gives back whatever it holds.
type Packet struct {
	Header

	Payload []byte
	Link    *Link
	Ext     *Ext // of read-based messages, RMA and atomics
	Multi   *Multi
	Next    *Packet // chain of its present holder
	last    *Packet // of a chain in the reorder window, kept by its first

	Aborted   bool // a message that its sender took back before its turn
	Malformed bool // of a message of which a packet cannot be read; Type is PEER_ERROR
	slot      *device.RecvPkt
	own       []byte // block that Payload lies in after Own
	held      int    // bytes accounted to the link
	arrive    Arrive
	deliver   Deliver
	pool      *Pool
}

// Multi is a message that takes several REQ packets, known by its msg_id while
// some are missing (libfabric's rxe_map, §3.2 medium message).
type Multi struct {
	Rx      shard.Ref // set by the endpoint when it has handled the first packet
	Total   uint64    // of the message
	span    uint64    // of that, what travels in its packets
	missing uint64    // of what travels in its packets
	packets int       // that refer to it
	next    *Multi
}

// Arrive is the packet as a message to the endpoint.
func (p *Packet) Arrive() *Arrive { return &p.arrive }

// Deliver is the packet as a message to an operation.
func (p *Packet) Deliver() *Deliver { return &p.deliver }

// Whole reports whether the packet holds all of its message.
func (p *Packet) Whole() bool { return uint64(len(p.Payload)) == p.Length }

// Own copies the payload out of the receive slot, so that the device ring is not
// held by what waits.
func (p *Packet) Own() {
	if p.slot == nil {
		return
	}
	if len(p.Payload) > 0 {
		p.Link.env.Counters.Copied += uint64(len(p.Payload))
		p.own = p.pool.blocks.get(len(p.Payload))
		copy(p.own, p.Payload)
		p.Payload = p.own[:len(p.Payload)]
	}
	p.slot.Release()
	p.slot = nil
	p.held = cap(p.own) + packetOverhead
	p.Link.Hold(p.held)
}

// packetOverhead is what a held packet costs beside its payload.
const packetOverhead = 320

// Free gives the packet back.
func (p *Packet) Free() {
	if p.slot != nil {
		p.slot.Release()
	} else {
		p.disown()
	}
	if p.Ext != nil || p.Multi != nil {
		p.freeRest()
	}
	p.Header, p.Aborted, p.Malformed = Header{}, false, false
	p.Payload, p.Link, p.slot = nil, nil, nil
	p.Next, p.pool.free = p.pool.free, p
}

// disown gives back what Own took.
func (p *Packet) disown() {
	if p.own != nil {
		p.pool.blocks.put(p.own)
		p.own = nil
	}
	if p.held > 0 {
		p.Link.Release(p.held)
		p.held = 0
	}
}

// freeRest gives back what few packets have.
func (p *Packet) freeRest() {
	if p.Ext != nil {
		p.pool.putExt(p.Ext)
		p.Ext = nil
	}
	if m := p.Multi; m != nil {
		if m.packets--; m.packets == 0 && m.missing == 0 {
			p.pool.putMulti(m)
		}
		p.Multi = nil
	}
}

// Pool is an endpoint's free packets and the memory for copied ones.
type Pool struct {
	free   *Packet
	multis *Multi
	exts   *Ext
	wrotes *Wrote
	blocks blocks
}

// Block takes memory for n bytes, n > 0; PutBlock gives it back.
func (l *Pool) Block(n int) []byte { return l.blocks.get(n) }

// PutBlock gives a block back.
func (l *Pool) PutBlock(b []byte) { l.blocks.put(b) }

// Get takes a packet for r's contents.
func (l *Pool) Get(r *device.RecvPkt, link *Link) *Packet {
	p := l.free
	if p == nil {
		l.grow()
		p = l.free
	}
	l.free, p.Next = p.Next, nil
	p.slot, p.Link = r, link
	return p
}

func (l *Pool) grow() {
	slab := make([]Packet, 64)
	for i := range slab {
		p := &slab[i]
		p.pool = l
		p.arrive.Pkt, p.deliver.Pkt = p, p
		p.Next, l.free = l.free, p
	}
}

func (l *Pool) getMulti() *Multi {
	m := l.multis
	if m == nil {
		return &Multi{}
	}
	l.multis = m.next
	*m = Multi{}
	return m
}

func (l *Pool) putMulti(m *Multi) {
	m.Rx = shard.Ref{}
	m.next, l.multis = l.multis, m
}

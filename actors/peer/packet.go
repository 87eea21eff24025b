package peer

import (
	"math"

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
	Ref     wire.RefKind // of PEER_ERROR, by what it names the operation
	Emitter wire.Emitter // of PEER_ERROR but in its form of 20 bytes: MsgID is the operation's
	Type    wire.Type
	Nack    bool // a LONGCTS in place of a read-based message (§4.7)
}

// Packet is a received packet, parsed. Its payload lies in the device's receive
// slot until Own copies it; Free gives back its memory.
type Packet struct {
	Header

	Payload []byte
	Link    *Link
	Ext     *Ext // of read-based messages, RMA and atomics
	Multi   *Multi
	Next    *Packet // chain of its present holder
	last    *Packet // of a chain in the reorder window, kept by its first

	Placed    bool // Payload lies where Placer has said
	Aborted   bool // a message that its sender took back before its turn
	Malformed bool // of a message of which a packet cannot be read; Type is PEER_ERROR
	slot      *device.RecvPkt
	own       []byte // block that Payload lies in after Own
	charged   int    // bytes accounted to the link
	arrive    Arrive
	deliver   Deliver
	pool      *Pool
}

// Ext is what the packet of a read-based message, of remote memory access or of an
// atomic has beside what all have.
type Ext struct {
	RMA    [wire.MaxIOV]wire.RMAIOV // memory of ours that the peer names (§3.3)
	NRMA   int
	Read   [wire.MaxIOV]wire.RMAIOV // memory of the peer's that we are to read (§4.1)
	NRead  int
	Runt   uint64 // bytes of the message that travel in packets (§4.5)
	Window uint64 // of an RTR: bytes that the requester is ready for

	Op       wire.AtomicOp
	Datatype wire.Datatype

	next *Ext
}

// Multi is a message that takes several REQ packets, known by its msg_id while
// some are missing (libfabric's rxe_map, §3.2 medium message).
type Multi struct {
	Rx      shard.Ref // set by the endpoint when it has handled the first packet
	To      Placer    // the same operation
	Total   uint64    // of the message
	span    uint64    // of that, what travels in its packets
	missing uint64    // of what travels in its packets
	packets int       // that refer to it
	next    *Multi
}

// Placer is an operation that receives a message.
type Placer interface {
	// Place is the memory for n bytes of the message of l with that msg_id, from off on: nil if they are to come
	// in a packet.
	Place(l *Link, msgID uint32, off, n uint64) []byte
}

// Arrive is the packet as a message to the endpoint.
func (p *Packet) Arrive() *Arrive { return &p.arrive }

// Deliver is the packet as a message to an operation.
func (p *Packet) Deliver() *Deliver { return &p.deliver }

// Whole reports whether the packet holds all of its message.
func (p *Packet) Whole() bool { return uint64(len(p.Payload)) == p.Length }

// multi reports whether further packets with the same msg_id belong to p's message.
func (p *Packet) multi() bool {
	switch p.Type {
	case wire.TypeMediumMsgRTM, wire.TypeMediumTagRTM, wire.TypeDCMediumMsgRTM, wire.TypeDCMediumTagRTM,
		wire.TypeRuntReadMsgRTM, wire.TypeRuntReadTagRTM:
		return true
	default:
		return false
	}
}

// span is how many bytes of p's message travel in packets with its msg_id.
func (p *Packet) span() uint64 {
	if p.Ext != nil && p.Ext.Runt > 0 {
		return p.Ext.Runt
	}
	return p.Length
}

// Own copies the payload out of the receive slot, so that the device ring is not
// occupied by packets that wait.
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
	p.charged = cap(p.own) + packetOverhead
	p.Link.Charge(p.charged)
}

// packetOverhead is what a kept packet costs beside its payload.
const packetOverhead = 320

// Free gives the packet back.
func (p *Packet) Free() {
	if p.slot != nil {
		p.slot.Release()
	} else {
		p.uncharge()
	}
	if p.Ext != nil || p.Multi != nil {
		p.freeRest()
	}
	p.Header, p.Placed, p.Aborted, p.Malformed = Header{}, false, false, false
	p.Payload, p.Link, p.slot = nil, nil, nil
	p.Next, p.pool.free = p.pool.free, p
}

// uncharge gives back what Own took.
func (p *Packet) uncharge() {
	if p.own != nil {
		p.pool.blocks.put(p.own)
		p.own = nil
	}
	if p.charged > 0 {
		p.Link.Uncharge(p.charged)
		p.charged = 0
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

// reset takes back what parse has made of a packet.
func (p *Packet) reset() {
	if p.Ext != nil {
		p.pool.putExt(p.Ext)
		p.Ext = nil
	}
	p.Header, p.Payload = Header{}, nil
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
	m.Rx, m.To = shard.Ref{}, nil
	m.next, l.multis = l.multis, m
}

func (l *Pool) getExt() *Ext {
	x := l.exts
	if x == nil {
		return new(Ext)
	}
	l.exts = x.next
	return x
}

func (l *Pool) putExt(x *Ext) {
	*x = Ext{next: l.exts}
	l.exts = x
}

// parse reads the packet b, which v has opened, into p, whose Type is set already. It is no eager
// message. Here and below, a header that cannot be read is zero.
func (p *Packet) parse(v *wire.View, b []byte) (err error) {
	t, n := v.Type, 0
	p.Tagged = t.IsTagged()
	switch t {
	case wire.TypeMediumMsgRTM, wire.TypeMediumTagRTM, wire.TypeDCMediumMsgRTM, wire.TypeDCMediumTagRTM:
		var h wire.MediumRTM
		n, err = h.Read(v)
		p.setREQ(&h.Options, h.MsgID, h.Tag, b[n:])
		p.Length, p.Offset, p.SendID = h.MsgLength, h.SegOffset, h.SendID
	case wire.TypeLongCTSMsgRTM, wire.TypeLongCTSTagRTM, wire.TypeDCLongCTSMsgRTM, wire.TypeDCLongCTSTagRTM:
		var h wire.LongCTSRTM
		n, err = h.Read(v)
		p.setREQ(&h.Options, h.MsgID, h.Tag, b[n:])
		p.Length, p.SendID, p.Nack = h.MsgLength, h.SendID, h.ReadNACK
	case wire.TypeCTSData:
		return p.parseCTSData(v, b)
	case wire.TypeCTS:
		var h wire.CTS
		_, err = h.Read(v)
		p.SendID, p.RecvID, p.Granted = h.SendID, h.RecvID, h.RecvLength
		return err
	default:
		if t.IsREQ() {
			return p.parseREQ(v, b)
		}
		return p.parseAnswer(v, b)
	}
	if err == nil && (p.Length > math.MaxInt64 || p.Offset > p.Length || uint64(len(p.Payload)) > p.Length-p.Offset) {
		return wire.ErrLength
	}
	return err
}

// setEager completes an eager message, of which the data is behind the n bytes of the headers.
func (p *Packet) setEager(v *wire.View, n int) {
	p.Type, p.Payload = v.Type, v.Bytes()[n:]
	p.Length = uint64(len(p.Payload))
}

func (p *Packet) parseCTSData(v *wire.View, b []byte) error {
	var h wire.CTSData
	n, err := h.Read(v)
	p.RecvID, p.Offset, p.Payload = h.RecvID, h.SegOffset, b[n:]
	return p.checkLength(h.SegLength, err)
}

func (p *Packet) setREQ(o *wire.Options, id uint32, tag uint64, payload []byte) {
	p.MsgID, p.Tag, p.Payload = id, tag, payload
	p.setOptions(o)
}

func (p *Packet) setOptions(o *wire.Options) { p.HasData, p.Data = o.HasCQData, o.CQData }

// parseAnswer reads a packet that names an operation of ours.
func (p *Packet) parseAnswer(v *wire.View, b []byte) error {
	switch v.Type {
	case wire.TypeREADRSP:
		var h wire.READRSP
		n, err := h.Read(v)
		p.RecvID, p.SendID, p.Payload = h.RecvID, h.SendID, b[n:]
		return p.checkLength(h.SegLength, err)
	case wire.TypeATOMRSP:
		var h wire.ATOMRSP
		n, err := h.Read(v)
		p.RecvID, p.Payload = h.RecvID, b[n:]
		return p.checkLength(h.SegLength, err)
	case wire.TypeEOR:
		var h wire.EOR
		_, err := h.Read(v)
		p.SendID, p.RecvID = h.SendID, h.RecvID
		return err
	case wire.TypeReadNACK:
		var h wire.ReadNACK
		_, err := h.Read(v)
		p.SendID, p.RecvID = h.SendID, h.RecvID
		return err
	case wire.TypeReceipt:
		var h wire.Receipt
		_, err := h.Read(v)
		p.SendID, p.MsgID = h.TxID, h.MsgID
		return err
	case wire.TypePeerError:
		return p.parseError(v)
	default:
		return wire.ErrType
	}
}

// refNothing is a kind of reference that there is not.
const refNothing = ^wire.RefKind(0)

// parseError reads PEER_ERROR. Its later forms have no kind of reference: an operation is named
// by the id that its own side has given out, or else by its message.
func (p *Packet) parseError(v *wire.View) error {
	var h wire.PeerError
	_, err := h.Read(v)
	p.SendID, p.RecvID, p.MsgID = h.OpID, h.OpID, h.MsgID
	p.Ref, p.Emitter, p.Errno = h.RefKind, h.Emitter, h.ProvErrno
	switch {
	case h.Form == wire.PeerErrorForm20:
		p.MsgID = h.OpID
	case h.Emitter != wire.EmitterTX && h.Emitter != wire.EmitterRX:
		p.Ref, p.Emitter = refNothing, wire.EmitterTX
	case h.OpID != wire.NoOpID:
		p.Ref = wire.RefOpe
	default:
		p.Ref = wire.RefMsgID
	}
	return err
}

// checkLength: the payload of a packet of which the headers were read (err) has n bytes.
func (p *Packet) checkLength(n uint64, err error) error {
	if err == nil && uint64(len(p.Payload)) != n {
		return wire.ErrLength
	}
	return err
}

// parseREQ reads the requests that have lists of memory (§3.3, §4.1, §4.5).
func (p *Packet) parseREQ(v *wire.View, b []byte) (err error) {
	x, t, n := p.pool.getExt(), v.Type, 0
	p.Ext = x
	switch {
	case t.IsRTA():
		return p.parseRTA(v, b, x)
	case t.IsRTR():
		var h wire.RTR
		_, err = h.Read(v)
		p.setOptions(&h.Options)
		p.RecvID, p.Length = h.RecvID, h.MsgLength
		x.RMA, x.NRMA, x.Window = h.RMAIOV, int(h.RMAIOVCount), uint64(h.RecvLength)
		return checkSum(x.RMA[:x.NRMA], p.Length, err)
	case t.IsRTW():
		return p.parseRTW(v, b, x)
	}
	switch t {
	case wire.TypeLongReadMsgRTM, wire.TypeLongReadTagRTM:
		var h wire.LongReadRTM
		n, err = h.Read(v)
		p.setREQ(&h.Options, h.MsgID, h.Tag, b[n:n])
		p.Length, p.SendID = h.MsgLength, h.SendID
		x.Read, x.NRead = h.ReadIOV, int(h.ReadIOVCount)
	case wire.TypeRuntReadMsgRTM, wire.TypeRuntReadTagRTM:
		var h wire.RuntReadRTM
		n, err = h.Read(v)
		p.setREQ(&h.Options, h.MsgID, h.Tag, b[n:])
		p.Length, p.SendID, p.Offset = h.MsgLength, h.SendID, h.SegOffset
		x.Read, x.NRead, x.Runt = h.ReadIOV, int(h.ReadIOVCount), h.RuntLength
		if err == nil && (x.Runt == 0 || x.Runt > p.Length || p.Offset > x.Runt || uint64(len(p.Payload)) > x.Runt-p.Offset) {
			return wire.ErrLength
		}
	default:
		return wire.ErrType
	}
	return checkSum(x.Read[:x.NRead], p.Length, err)
}

func (p *Packet) parseRTA(v *wire.View, b []byte, x *Ext) error {
	var h wire.RTA
	n, err := h.Read(v)
	p.setREQ(&h.Options, h.MsgID, 0, b[n:])
	p.SendID, p.RecvID = h.SendID, h.RecvID
	x.RMA, x.NRMA, x.Op, x.Datatype = h.RMAIOV, int(h.RMAIOVCount), h.Op, h.Datatype
	var ok bool
	if p.Length, ok = sum(x.RMA[:x.NRMA]); !ok {
		return wire.ErrLength
	}
	return err
}

func (p *Packet) parseRTW(v *wire.View, b []byte, x *Ext) (err error) {
	n := 0
	switch v.Type {
	case wire.TypeEagerRTW, wire.TypeDCEagerRTW:
		var h wire.EagerRTW
		n, err = h.Read(v)
		p.setOptions(&h.Options)
		p.Payload, p.SendID = b[n:], h.SendID
		p.Length = uint64(len(p.Payload))
		x.RMA, x.NRMA = h.RMAIOV, int(h.RMAIOVCount)
	case wire.TypeLongCTSRTW, wire.TypeDCLongCTSRTW:
		var h wire.LongCTSRTW
		n, err = h.Read(v)
		p.setOptions(&h.Options)
		p.Payload, p.SendID, p.Length = b[n:], h.SendID, h.MsgLength
		x.RMA, x.NRMA = h.RMAIOV, int(h.RMAIOVCount)
		if err == nil && uint64(len(p.Payload)) > p.Length {
			return wire.ErrLength
		}
	default:
		var h wire.LongReadRTW
		_, err = h.Read(v)
		p.setOptions(&h.Options)
		p.SendID, p.Length = h.SendID, h.MsgLength
		x.RMA, x.NRMA = h.RMAIOV, int(h.RMAIOVCount)
		x.Read, x.NRead = h.ReadIOV, int(h.ReadIOVCount)
		err = checkSum(x.Read[:x.NRead], p.Length, err)
	}
	return checkSum(x.RMA[:x.NRMA], p.Length, err)
}

// checkSum: the memory that a packet names, if its headers were read (err), is as long as the message.
func checkSum(iov []wire.RMAIOV, want uint64, err error) error {
	if n, ok := sum(iov); err == nil && (!ok || n != want) {
		return wire.ErrLength
	}
	return err
}

// sum adds the lengths up; false if they are more than memory can be.
func sum(iov []wire.RMAIOV) (n uint64, ok bool) {
	for i := range iov {
		if iov[i].Len > math.MaxInt64-n {
			return 0, false
		}
		n += iov[i].Len
	}
	return n, true
}

package device

import (
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

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

package tap

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// LinkType of captures is USER0: its meaning is agreed between writer and reader.
const LinkType = 147

// Numbers of the pcapng format (draft-ietf-opsawg-pcapng).
const (
	blockSection   = 0x0a0d0d0a
	blockInterface = 1
	blockPacket    = 6 // enhanced packet block

	byteOrderMagic = 0x1a2b3c4d

	optEnd         = 0
	optShbUserAppl = 4
	optIfName      = 2
	optIfTsresol   = 9
	optEpbFlags    = 2
	optComment     = 1

	epbInbound  = 1
	epbOutbound = 2
)

// Pcapng is a Sink that writes a capture in pcapng format. A packet's data is
//
//	0               32                64
//	+---------------+-----------------+--------+
//	| sender's raw  | receiver's raw  | packet |
//	| address       | address         |        |
//	+---------------+-----------------+--------+
//
// its timestamp the sink's clock in nanoseconds, that of day for the system's so that captures of
// several processes can be merged, and its direction is in epb_flags.
// RDMA is left out, since it has no packets at this level, and so are immediates.
// Each block is one Write, so shards may share a Pcapng.
type Pcapng struct {
	clock.Clock

	zero uint64 // what a timestamp is at the clock's zero

	mu      sync.Mutex
	w       io.Writer
	buf     []byte
	err     error
	dropped uint64
}

// NewPcapng writes the headers of a capture to w, which it does not close. Records
// are stamped by clk; nil is the system's clock.
func NewPcapng(w io.Writer, clk clock.Clock) (*Pcapng, error) {
	if clk == nil {
		clk = clock.System
	}
	p := &Pcapng{Clock: clk, w: w}
	if clk == clock.System {
		p.zero = uint64(clock.OfDay(0).UnixNano())
	}
	b := p.begin(blockSection)
	b = le.AppendUint32(b, byteOrderMagic)
	b = le.AppendUint16(b, 1) // version 1.0
	b = le.AppendUint16(b, 0)
	b = le.AppendUint64(b, ^uint64(0)) // length not known
	b = appendOption(b, optShbUserAppl, "efactor")
	b = le.AppendUint32(b, optEnd)
	p.finish(b)

	b = p.begin(blockInterface)
	b = le.AppendUint16(b, LinkType)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint32(b, 0) // no limit to the length of packets
	b = appendOption(b, optIfName, "efa")
	b = appendOption(b, optIfTsresol, "\x09") // 10^-9 s
	b = le.AppendUint32(b, optEnd)
	p.finish(b)
	if p.err != nil {
		return nil, p.err
	}
	return p, nil
}

// SentAgain is the comment of a packet that was sent before. Wireshark finds it as frame.comment.
const SentAgain = "sent again"

// Packet implements Sink. After an error of the writer nothing more is written.
func (p *Pcapng) Packet(r Record) {
	if r.Kind != device.WRSend {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		p.dropped++
		return
	}
	size := uint32(2*wire.RawAddrLen + len(r.Packet))
	b := p.begin(blockPacket)
	b = le.AppendUint32(b, 0) // the only interface
	stamp := p.zero + uint64(r.Time)
	b = le.AppendUint32(b, uint32(stamp>>32))
	b = le.AppendUint32(b, uint32(stamp))
	b = le.AppendUint32(b, size) // captured
	b = le.AppendUint32(b, size) // on the wire
	b = append(b, r.From[:]...)
	b = append(b, r.To[:]...)
	b = append(b, r.Packet...)
	b = pad(b)
	flags := uint32(epbInbound)
	if r.Out {
		flags = epbOutbound
	}
	b = le.AppendUint16(b, optEpbFlags)
	b = le.AppendUint16(b, 4)
	b = le.AppendUint32(b, flags)
	if r.Again {
		b = appendOption(b, optComment, SentAgain)
	}
	b = le.AppendUint32(b, optEnd)
	p.finish(b)
	if p.err != nil {
		p.dropped++
	}
}

// Err is the writer's first error, with the number of packets that are missing.
func (p *Pcapng) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		return nil
	}
	return fmt.Errorf("tap: capture lacks %d packets: %w", p.dropped, p.err)
}

var le = binary.LittleEndian

// begin starts a block; its length is filled in by finish.
func (p *Pcapng) begin(kind uint32) []byte {
	b := le.AppendUint32(p.buf[:0], kind)
	return le.AppendUint32(b, 0)
}

// finish writes the block: the length stands at both ends.
func (p *Pcapng) finish(b []byte) {
	size := uint32(len(b) + 4)
	le.PutUint32(b[4:], size)
	b = le.AppendUint32(b, size)
	p.buf = b
	if p.err == nil {
		_, p.err = p.w.Write(b)
	}
}

func appendOption(b []byte, code uint16, value string) []byte {
	b = le.AppendUint16(b, code)
	b = le.AppendUint16(b, uint16(len(value)))
	return pad(append(b, value...))
}

// pad fills up to a multiple of four, which all fields and blocks so far are.
func pad(b []byte) []byte {
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

package efanet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/efactor/efactor/api/efa"
)

// A lane is one of the ways that frames of a connection take, each in order for itself. The tag
// of a message names the lane and the receiver's id of the connection:
//
//	 63     56 55     48 47                              0
//	+---------+---------+---------------------------------+
//	|  0xEF   |  lane   |        id at the receiver       |
//	+---------+---------+---------------------------------+
type lane uint64

const (
	laneOpen   lane = 1 // OPEN and PING, from anybody; the id is 0
	laneStream lane = 2 // to the reader: DATA, OFFER, FIN or RESET
	laneBulk   lane = 3 // to the reader, for an OFFER: BULK, WITHDRAW
	laneBack   lane = 4 // to the writer: ACCEPT or REFUSE once, then CREDIT, GRANT, STOP
	laneWatch  lane = 5 // GONE and PRESS; the id is 0. A receive on it ends with the peer
)

const (
	idBits    = 48
	maxID     = 1<<idBits - 1
	tagPrefix = 0xEF << 56
)

func (l lane) tag(id uint64) uint64 { return tagPrefix | uint64(l)<<idBits | id }

func (l lane) match(id uint64) efa.Match { return efa.Match{Tag: l.tag(id)} }

// kind is what a frame is. It is in the upper 8 bits of the message's remote CQ data, which is
// the frame's head; the other 56 are its value. Thus the bytes of a message are the user's alone.
type kind uint8

const (
	kindOpen     kind = iota + 1 // value: the version
	kindAccept                   // value: the accepting side's id; body: its window
	kindRefuse                   // value: a refusal
	kindData                     // value: how many bytes of the stream came before; body: 1 to maxFrame more
	kindOffer                    // value: sequence number and length of what is to be written
	kindBulk                     // value: the sequence number; body: as many bytes as were granted
	kindWithdraw                 // value: the sequence number of an offer that has ended
	kindFin                      // no more bytes come; value: how many there were
	kindReset                    // the connection has failed
	kindCredit                   // value: credit that is given back
	kindGrant                    // value: sequence number of the offer, and how many bytes of it
	kindStop                     // nobody reads any more
	kindPing                     // body: an epoch of the receiver's that the sender has connections of
	kindGone                     // value: an epoch of the sender's, of which it has no connections any more
	kindPress                    // value: the receiver's id of a connection for which the writer has no credit left
)

const (
	version = 1
	// window is how much credit a reader gives in all: what may wait for it at a time. It is a number
	// of bytes, as far as the reader joins.
	window = 128<<10 | joins
	// joins is a bit of the window that a side states: its reader joins what has come at PRESS.
	joins = 1
	// mostOwed is how much credit a reader owes at most while its program is expected to answer. The rest is more
	// than a frame costs, so the writer goes on.
	mostOwed = window / 8 * 7
	// frameCost is what a frame costs beside its bytes: the memory that the endpoint has for a
	// message that nobody has received, see cost.
	frameCost = 2048
	// maxFrame is the most bytes of a DATA frame.
	maxFrame = 4096
	// minBulk is from how many bytes on a write is offered and goes by one copy.
	minBulk = 64 << 10
	// maxOffer is the most bytes of an OFFER. A longer write makes several.
	maxOffer = 1 << 30
	// maxGrant is the most bytes of a GRANT: what a reader may have to keep.
	maxGrant = 4 << 20
)

// maxValue is the largest value of a frame; counts of bytes begin again at 0 behind it.
const maxValue = 1<<56 - 1

func head(k kind, value uint64) uint64 { return uint64(k)<<56 | value&maxValue }

// cost is the credit that a frame with n bytes takes: at least the memory that it needs at the
// endpoint until it is received, where blocks of a power of two hold the bytes.
func cost(n int) int {
	if n == 0 {
		return frameCost
	}
	return frameCost + 1<<bits.Len(uint(max(n, 64)-1))
}

// sized is the value of frames about an offer: its sequence number and a length.
func sized(seq uint16, n int) uint64 { return uint64(seq)<<40 | uint64(n) }

// frame is what has come.
type frame struct {
	kind  kind
	value uint64
	n     int // bytes of the body
}

// seq and size undo sized.
func (f frame) seq() uint16 { return uint16(f.value >> 40) }
func (f frame) size() int   { return int(f.value & (1<<40 - 1)) }

var errFrame = errors.New("efanet: the other side broke the protocol")

func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errFrame, fmt.Sprintf(format, args...))
}

// parse reads the head of a message on a lane and checks everything that needs no state.
func parse(l lane, m *efa.Message) (frame, error) {
	f := frame{kind: kind(m.Data >> 56), value: m.Data & maxValue, n: m.N}
	if !m.HasData {
		return f, violation("a message without a head")
	}
	ok, body := false, 0
	switch f.kind {
	case kindOpen:
		ok, body = l == laneOpen && f.value == version, maxOpen
	case kindAccept:
		ok, body = l == laneBack && f.value > 0 && f.value <= maxID, 12
	case kindRefuse:
		ok = l == laneBack
	case kindData:
		ok, body = l == laneStream && f.n > 0, maxFrame
	case kindOffer:
		ok = l == laneStream && f.size() > 0 && f.size() <= maxOffer
	case kindBulk:
		ok, body = l == laneBulk && f.n > 0 && f.size() == 0, maxGrant
	case kindWithdraw:
		ok = l == laneBulk && f.size() == 0
	case kindFin:
		ok = l == laneStream
	case kindReset:
		ok = l == laneStream && f.value == 0
	case kindCredit:
		ok = l == laneBack && f.value > 0 && f.value <= window
	case kindGrant:
		ok = l == laneBack && f.size() > 0 && f.size() <= maxGrant
	case kindStop:
		ok = l == laneBack && f.value == 0
	case kindPing:
		ok, body = l == laneOpen && f.value == 0, maxOpen
	case kindGone:
		ok = l == laneWatch && f.value > 0
	case kindPress:
		ok = l == laneWatch && f.value > 0 && f.value <= maxID
	}
	if !ok || f.n > body {
		return f, violation("a frame of kind %d with value %#x and %d bytes on lane %d", f.kind, f.value, f.n, l)
	}
	return f, nil
}

// accepted is the body of an ACCEPT, and in the middle of an OPEN.
//
//	0        4        12
//	+--------+--------+
//	| window | epoch  |
//	+--------+--------+
type accepted struct {
	window int
	epoch  uint64 // the sender's, see hub.begun
}

// open is the body of an OPEN: what the other side must know to answer.
//
//	0        8        20
//	+--------+--------+------------------+
//	|   id   |accepted| address, as text |
//	+--------+--------+------------------+
type open struct {
	id uint64
	accepted
	from string // not checked
}

const maxOpen = 4096

func (o *open) marshal() []byte {
	b := binary.LittleEndian.AppendUint64(nil, o.id)
	return append(o.accepted.append(b), o.from...)
}

func (o *open) unmarshal(b []byte) error {
	if len(b) < 20 || len(b) > maxOpen {
		return violation("an OPEN of %d bytes", len(b))
	}
	id, err := binary.LittleEndian.Uint64(b), error(nil)
	if id == 0 || id > maxID {
		return violation("an OPEN with id %#x", id)
	}
	a, err := parseAccepted(b[8:20])
	if err != nil {
		return err
	}
	*o = open{id, a, string(b[20:])}
	return nil
}

func (a accepted) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(a.window))
	return binary.LittleEndian.AppendUint64(b, a.epoch)
}

func parseAccepted(b []byte) (accepted, error) {
	if len(b) != 12 {
		return accepted{}, violation("an answer of %d bytes", len(b))
	}
	w, epoch := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint64(b[4:])
	if int64(w) < int64(cost(maxFrame)) || w > 1<<30 {
		return accepted{}, violation("a window of %d", w)
	}
	if epoch == 0 || epoch > maxValue {
		return accepted{}, violation("an epoch of %#x", epoch)
	}
	return accepted{int(w), epoch}, nil
}

// ping is the body of a PING.
//
//	0        8
//	+--------+------------------+
//	| epoch  | address, as text |
//	+--------+------------------+
type ping struct {
	epoch uint64 // the receiver's
	from  string // not checked
}

func (p *ping) marshal() []byte {
	return append(binary.LittleEndian.AppendUint64(nil, p.epoch), p.from...)
}

func (p *ping) unmarshal(b []byte) error {
	if len(b) < 8 {
		return violation("a PING of %d bytes", len(b))
	}
	epoch := binary.LittleEndian.Uint64(b)
	if epoch == 0 || epoch > maxValue {
		return violation("a PING with epoch %#x", epoch)
	}
	*p = ping{epoch, string(b[8:])}
	return nil
}

package remote

import (
	"encoding/binary"
	"math"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/api/efa"
)

// A frame is one tagged message. Its first byte says what it is, the next eight are a session, most
// often the receiver's, see link.ask.
//
//	0      1         9
//	+------+---------+----------+
//	| kind | session |   body   |
//	+------+---------+----------+
type kind uint8

const (
	kindHello   kind = iota + 1 // session: the sender's. Body: version, address, name
	kindWelcome                 // session: the receiver's. Body: the sender's
	kindData                    // body: envelopes
	kindPing                    // nothing: is the session still known?
	kindReset                   // it is not
	kindBye                     // the sender's end; there is nothing more in the session
	kindCredit                  // body: how many bytes of messages were handled in the session
)

const (
	version   = 3
	frameHead = 9
	// tagFrames is the tag of frames but for HELLO and CREDIT, which others' frames are not to hold up, and tagWatch
	// that of none: a receive ends with the peer.
	tagFrames = 0xAC<<56 | 1
	tagWatch  = 0xAC<<56 | 2
	tagHello  = 0xAC<<56 | 3
	tagCredit = 0xAC<<56 | 5
	// maxHello bounds the texts in HELLO.
	maxHello = 4096
)

// tagOf is the tag of a frame.
func tagOf(frame []byte) uint64 {
	switch kind(frame[0]) {
	case kindHello:
		return tagHello
	case kindCredit:
		return tagCredit
	default:
		return tagFrames
	}
}

func appendHead(b []byte, k kind, session uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, byte(k)), session)
}

// hello is the body of a HELLO.
type hello struct {
	address efa.Address // of the endpoint
	name    string      // of the process: what its PIDs have as their address
}

func (h *hello) append(b []byte) []byte {
	return appendString(appendString(append(b, version), h.address.String()), h.name)
}

func (h *hello) parse(b []byte) error {
	if len(b) == 0 || len(b) > maxHello || b[0] != version {
		return violation("a HELLO of another version, or %d bytes", len(b))
	}
	r := reader{b: b[1:]}
	text, err := r.text()
	if err != nil {
		return err
	}
	if h.address, err = efa.ParseAddress(text); err != nil {
		return violation("a HELLO: %v", err)
	}
	h.name, err = r.text()
	if err == nil && (h.name == "" || len(r.b) > 0) {
		err = violation("a HELLO without a name, or with more")
	}
	return err
}

// envelope is a message with what belongs to it.
type envelope struct {
	system  bool
	target  *actor.PID // its address is that of the receiving process
	sender  *actor.PID // or nil
	header  map[string]string
	message any
}

// What an envelope has, in its first byte. Those that follow one another in a frame often have
// the same target, sender and type, which are left out then.
const (
	hasSender  = 1 << iota // else nobody's
	isSystem               // else a user message
	sameTarget             // as the one before
	sameSender             // as the one before that had one
	sameType               // codec and type as the one before
	hasHeader
	foreign // the sender is in neither of the two processes
	allBits = 1<<iota - 1
)

// maxHeader is how many header entries a message has at most.
const maxHeader = 1 << 10

// previous is what the envelope before in a frame has said.
type previous struct {
	target, sender id
	typ            [2]string // codec, type
	named          bool      // one had a sender, who may be nobody's PID, the zero value
}

// id is a PID without what it caches.
type id struct {
	address, id string
	request     uint32
}

func idOf(p *actor.PID) id { return id{p.Address, p.Id, p.RequestId} }

// append appends an envelope whose message was encoded already. Addresses of the own process are
// left out: the receiver knows the sender's.
func (c *previous) append(b []byte, own string, e *envelope, codec, typ string, body []byte) []byte {
	bits := byte(0)
	target, sender := idOf(e.target), id{}
	if e.system {
		bits |= isSystem
	}
	if target == c.target {
		bits |= sameTarget
	}
	if e.sender != nil {
		bits |= hasSender
		sender = idOf(e.sender)
		switch {
		case c.named && sender == c.sender:
			bits |= sameSender
		case sender.address != own:
			bits |= foreign
		}
		c.sender, c.named = sender, true
	}
	if c.typ == [2]string{codec, typ} {
		bits |= sameType
	}
	if len(e.header) > 0 {
		bits |= hasHeader
	}
	b = append(b, bits)
	if bits&sameTarget == 0 {
		b = appendString(b, target.id)
		b = binary.AppendUvarint(b, uint64(target.request))
	}
	if bits&hasSender != 0 && bits&sameSender == 0 {
		if bits&foreign != 0 {
			b = appendString(b, sender.address)
		}
		b = appendString(b, sender.id)
		b = binary.AppendUvarint(b, uint64(sender.request))
	}
	if bits&sameType == 0 {
		b = appendString(appendString(b, codec), typ)
	}
	if bits&hasHeader != 0 {
		b = binary.AppendUvarint(b, uint64(len(e.header)))
		for k, v := range e.header {
			b = appendString(appendString(b, k), v)
		}
	}
	c.target, c.typ = target, [2]string{codec, typ}
	b = binary.AppendUvarint(b, uint64(len(body)))
	return append(b, body...)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// reader takes the envelopes of a frame. Nothing in them is to be believed.
type reader struct {
	b    []byte
	own  string // the address of this process
	from string // of the one that the frame is from

	target, sender *actor.PID
	typ            [2]string
}

// next takes an envelope, without its message: the codec's input is body.
func (r *reader) next() (e envelope, codec, typ string, body []byte, err error) {
	bits := r.b[0]
	r.b = r.b[1:]
	if bits&^allBits != 0 || bits&sameTarget != 0 && r.target == nil ||
		bits&hasSender == 0 && bits&(sameSender|foreign) != 0 || bits&sameSender != 0 && bits&foreign != 0 {
		return e, "", "", nil, violation("an envelope begins with %#x", bits)
	}
	if bits&sameTarget == 0 {
		if r.target, err = r.pid(r.own); err != nil {
			return e, "", "", nil, err
		}
	}
	e.target, e.system = r.target, bits&isSystem != 0
	if bits&hasSender != 0 {
		if e.sender, err = r.whose(bits); err != nil {
			return e, "", "", nil, err
		}
	}
	if bits&sameType == 0 {
		for i := range r.typ {
			if r.typ[i], err = r.text(); err != nil {
				return e, "", "", nil, err
			}
		}
	}
	if bits&hasHeader != 0 {
		if e.header, err = r.headers(); err != nil {
			return e, "", "", nil, err
		}
	}
	body, err = r.bytes()
	return e, r.typ[0], r.typ[1], body, err
}

func (r *reader) whose(bits byte) (*actor.PID, error) {
	if bits&sameSender != 0 {
		if r.sender == nil {
			return nil, violation("an envelope with the sender of none")
		}
		return r.sender, nil
	}
	address, err := r.from, error(nil)
	if bits&foreign != 0 {
		if address, err = r.text(); err != nil {
			return nil, err
		}
	}
	r.sender, err = r.pid(address)
	return r.sender, err
}

func (r *reader) headers() (map[string]string, error) {
	n, err := r.number(maxHeader)
	if err != nil {
		return nil, err
	}
	h := make(map[string]string, n)
	for range n {
		k, err := r.text()
		if err != nil {
			return nil, err
		}
		if h[k], err = r.text(); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (r *reader) pid(address string) (*actor.PID, error) {
	name, err := r.text()
	if err != nil {
		return nil, err
	}
	request, err := r.number(math.MaxUint32)
	return &actor.PID{Address: address, Id: name, RequestId: uint32(request)}, err
}

func (r *reader) number(most uint64) (uint64, error) {
	n, used := binary.Uvarint(r.b)
	if used <= 0 || n > most {
		return 0, violation("an envelope has a number that cannot be")
	}
	r.b = r.b[used:]
	return n, nil
}

func (r *reader) bytes() ([]byte, error) {
	n, err := r.number(uint64(len(r.b)))
	if err != nil {
		return nil, err
	}
	if n > uint64(len(r.b)) { // the number itself took some
		return nil, violation("an envelope is cut off")
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b, nil
}

func (r *reader) text() (string, error) {
	b, err := r.bytes()
	return string(b), err
}

// batch is envelopes that leave in one frame.
type batch struct {
	buf     []byte // the frame, whose head is filled in when it leaves
	last    previous
	letters []letter
}

// letter is a message as it was sent, for the case that it cannot be delivered.
type letter struct {
	target  *actor.PID
	message any
	system  bool
}

// full is from how many bytes on a batch takes no more messages: with one more it is a message that goes without
// flow control, mostly.
const full = 48 << 10

// keepBuf is the largest buffer that is used again.
const keepBuf = 2 * full

func newBatch() *batch { return &batch{buf: make([]byte, frameHead, full/16)} }

func (b *batch) add(own string, e *envelope, l letter, codec, typ string, body []byte) {
	b.buf = b.last.append(b.buf, own, e, codec, typ, body)
	b.letters = append(b.letters, l)
}

// reset empties a batch for its next use.
func (b *batch) reset() {
	b.last = previous{}
	clear(b.letters)
	b.letters = b.letters[:0]
	b.buf = b.buf[:frameHead]
	if cap(b.buf) > keepBuf {
		b.buf = make([]byte, frameHead, full)
	}
}

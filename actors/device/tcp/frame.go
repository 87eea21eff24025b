package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/device"
)

// kind is what a frame says.
type kind uint8

// Kinds of frame. Numbers never change.
const (
	kindSend   kind = 1 // a packet; length bytes follow
	kindRead   kind = 2 // a request for length bytes of a region
	kindWrite  kind = 3 // length bytes for a region, which follow
	kindData   kind = 4 // the answer to a read; length bytes follow
	kindStatus kind = 5 // the end of a request
	kindPing   kind = 6 // asks for a pong
	kindPong   kind = 7
	kindBye    kind = 8 // the queue pair is closed, or (status) wants no more of us; nothing follows
)

// Lengths of headers. Each begins with the same 16 bytes.
const (
	baseLen  = 16
	sendLen  = 24
	readLen  = 40
	writeLen = 40
	maxLen   = writeLen
)

// headerLen is a header's length by kind; 0: no such kind.
var headerLen = [256]uint8{
	kindSend: sendLen, kindRead: readLen, kindWrite: writeLen, kindData: baseLen,
	kindStatus: baseLen, kindPing: baseLen, kindPong: baseLen, kindBye: baseLen,
}

// The flags: withImm of kindSend and kindWrite, begins of kindSend.
const (
	withImm = 1
	begins  = 2 // device.SendWR's, not both
)

// frame is a header (see doc.go for where its fields lie).
type frame struct {
	kind   kind
	imm    bool
	begins bool
	status device.Status
	length int
	token  uint64
	qkey   uint32 // of the queue pair that the request is for
	rkey   uint64
	addr   uint64
	data   uint32 // the immediate, or the msg_id
}

// errFrame: the other side sent an impossible frame.
var errFrame = errors.New("tcp: impossible frame")

// appendTo appends the header to b.
func (f *frame) appendTo(b []byte) []byte {
	n, at := int(headerLen[f.kind]), len(b)
	for range n / 8 {
		b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	h := b[at : at+n]
	h[0] = uint8(f.kind)
	if f.imm {
		h[1] = withImm
	}
	if f.begins {
		h[1] |= begins
	}
	if f.kind == kindStatus || f.kind == kindBye {
		h[1] = uint8(f.status)
	}
	binary.LittleEndian.PutUint32(h[4:], uint32(f.length))
	binary.LittleEndian.PutUint64(h[8:], f.token)
	switch f.kind {
	case kindSend:
		binary.LittleEndian.PutUint32(h[16:], f.qkey)
		binary.LittleEndian.PutUint32(h[20:], f.data)
	case kindRead, kindWrite:
		binary.LittleEndian.PutUint32(h[16:], f.qkey)
		binary.LittleEndian.PutUint32(h[20:], f.data)
		binary.LittleEndian.PutUint64(h[24:], f.addr)
		binary.LittleEndian.PutUint64(h[32:], f.rkey)
	default: // nothing more
	}
	return b
}

// parse reads a header at the beginning of b and returns its length, or 0 if not all of
// it is there.
func (f *frame) parse(b []byte, mtu int) (int, error) {
	if len(b) < baseLen {
		return 0, nil
	}
	n := int(headerLen[b[0]])
	switch {
	case n == 0 || b[2]|b[3] != 0:
		return 0, fmt.Errorf("%w: begins with %x", errFrame, b[:4])
	case len(b) < n:
		return 0, nil
	}
	*f = frame{
		kind: kind(b[0]), length: int(binary.LittleEndian.Uint32(b[4:])),
		token: binary.LittleEndian.Uint64(b[8:]),
	}
	most := 0
	switch f.kind {
	case kindSend:
		most, f.imm, f.begins = mtu, b[1]&withImm != 0, b[1]&begins != 0
		f.qkey, f.data = binary.LittleEndian.Uint32(b[16:]), binary.LittleEndian.Uint32(b[20:])
	case kindRead, kindWrite:
		most = maxRDMA
		f.qkey, f.data = binary.LittleEndian.Uint32(b[16:]), binary.LittleEndian.Uint32(b[20:])
		f.addr, f.rkey = binary.LittleEndian.Uint64(b[24:]), binary.LittleEndian.Uint64(b[32:])
		f.imm = f.kind == kindWrite && b[1]&withImm != 0
	case kindData:
		most = maxRDMA
	case kindStatus, kindBye:
		f.status = device.Status(b[1])
	default: // nothing more
	}
	return n, f.check(b[1], most)
}

// check validates the fields that all kinds have.
func (f *frame) check(flags uint8, most int) error {
	switch {
	case uint(f.length) > uint(most):
		return fmt.Errorf("%w: %d bytes of kind %d", errFrame, f.length, f.kind)
	case f.kind == kindStatus:
		if !answers[f.status] {
			return fmt.Errorf("%w: status %d", errFrame, f.status)
		}
	case f.kind == kindBye:
		if f.status != device.StatusOK && f.status != device.StatusUnknownPeer {
			return fmt.Errorf("%w: bye with status %d", errFrame, f.status)
		}
	case f.imm != (flags&withImm != 0), f.begins != (flags&begins != 0), flags&^(withImm|begins) != 0, f.imm && f.begins, f.data != 0 && !f.imm && !f.begins:
		return fmt.Errorf("%w: flags %#x of kind %d", errFrame, flags, f.kind)
	}
	return nil
}

// answers are the statuses with which a frame may end a request.
var answers = [256]bool{
	device.StatusOK: true, device.StatusBadAddress: true, device.StatusBadDestQPN: true, device.StatusRNR: true, device.StatusUnknownPeer: true,
}

package model

import (
	"encoding/binary"
	"fmt"
)

// Any is the source of a receive that takes messages of all senders.
const Any = -1

// Msg is a message that a program sent.
type Msg struct {
	ID       int // unique, from 0
	From, To int // endpoints
	Tagged   bool
	Tag      uint64
	HasData  bool
	Data     uint64
	Len      int
	Order    int  // when it was sent: of two with the same sender the lower came first
	Sure     bool // it must arrive: neither its sender nor its receiver failed
}

// Recv is a receive that a program posted.
type Recv struct {
	Tagged      bool
	Tag, Ignore uint64
	Source      int  // an endpoint, or Any
	Many        bool // what gets none has thrown none away, although it was canceled
	Post        int  // when it was posted
	Canceled    int  // when its end was asked for; 0: never
	Ended       int  // when its outcome was seen
	Got         *Got
}

// Got is a receive's completion.
type Got struct {
	ID      int // what the contents, the tag or the data say; -1: nothing
	From    int
	Tagged  bool
	Tag     uint64
	HasData bool
	Data    uint64
	Len     int // including bytes that were cut off

	msg *Msg
}

// Accepts reports whether r takes m.
func (r *Recv) Accepts(m *Msg) bool {
	return r.Tagged == m.Tagged && (r.Source == Any || r.Source == m.From) &&
		(!r.Tagged || (r.Tag^m.Tag)&^r.Ignore == 0)
}

// String describes m for a report.
func (m *Msg) String() string {
	s := fmt.Sprintf("message %d (%d -> %d, %d B, order %d", m.ID, m.From, m.To, m.Len, m.Order)
	if m.Tagged {
		s += fmt.Sprintf(", tag %#x", m.Tag)
	}
	if m.HasData {
		s += fmt.Sprintf(", data %#x", m.Data)
	}
	return s + ")"
}

// String describes r for a report.
func (r *Recv) String() string {
	s := fmt.Sprintf("receive posted at %d (source %d", r.Post, r.Source)
	if r.Tagged {
		s += fmt.Sprintf(", tag %#x ignoring %#x", r.Tag, r.Ignore)
	}
	return s + ")"
}

func (g *Got) is(m *Msg) bool {
	return g.From == m.From && g.Tagged == m.Tagged && (!g.Tagged || g.Tag == m.Tag) &&
		g.HasData == m.HasData && (!g.HasData || g.Data == m.Data) && g.Len == m.Len
}

// idLen is how many bytes of a message say which one it is.
const idLen = 4

// Fill writes the contents of message id: its number, then a sequence that
// depends on the number and the place.
func Fill(b []byte, id int) {
	n := len(b) &^ 7
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], word(id, i))
	}
	if n < len(b) {
		var last [8]byte
		binary.LittleEndian.PutUint64(last[:], word(id, n))
		copy(b[n:], last[:])
	}
	if len(b) >= idLen {
		binary.LittleEndian.PutUint32(b, uint32(id))
	}
}

// ID returns the identifier of the message that b begins with; -1: b is too short.
func ID(b []byte) int {
	if len(b) < idLen {
		return -1
	}
	return int(binary.LittleEndian.Uint32(b))
}

// Differs returns where b is not how Fill wrote message id, whose length is n,
// -1 if nowhere. b may be the beginning of the message.
func Differs(b []byte, id, n int) int { return DiffersAt(b, 0, id, n) }

// DiffersAt is Differs for a part of the message that begins at off.
func DiffersAt(b []byte, off, id, n int) int {
	for i := 0; i < len(b); {
		at := off + i
		if at%8 == 0 && at > 0 && i+8 <= len(b) && binary.LittleEndian.Uint64(b[i:]) == word(id, at) {
			i += 8
			continue
		}
		if b[i] != byteOf(id, at, n) {
			return i
		}
		i++
	}
	return -1
}

// byteOf is the byte at a place in message id, whose length is n.
func byteOf(id, at, n int) byte {
	if at < idLen && n >= idLen {
		return byte(id >> (8 * at))
	}
	return byte(word(id, at&^7) >> (8 * (at & 7)))
}

func word(id, at int) uint64 {
	x := uint64(id)<<32 ^ uint64(at) ^ 0x9e3779b97f4a7c15
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>29
}

package model

import (
	"encoding/binary"
	"fmt"

	"github.com/efactor/efactor/wire"
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

// Step is an atomic on one unsigned integer, as its requester saw it.
type Step struct {
	Op      wire.AtomicOp
	Bits    int // of the integer
	Operand uint64
	Compare uint64 // of the operations that compare
	Fetched uint64 // what was there before, if Fetches
	Fetches bool
}

// Apply performs the step on an integer t; false: it did not find t, since it
// fetched another value.
func (s Step) Apply(t uint64) (uint64, bool) {
	if s.Fetches && s.Fetched != t {
		return t, false
	}
	o, c := s.Operand, s.Compare
	r := t
	set := func(cond bool) {
		if cond {
			r = o
		}
	}
	switch s.Op {
	case wire.OpMin:
		r = min(t, o)
	case wire.OpMax:
		r = max(t, o)
	case wire.OpSum:
		r = t + o
	case wire.OpProd:
		r = t * o
	case wire.OpLOr:
		r = truth(t != 0 || o != 0)
	case wire.OpLAnd:
		r = truth(t != 0 && o != 0)
	case wire.OpLXor:
		r = truth((t != 0) != (o != 0))
	case wire.OpBOr:
		r = t | o
	case wire.OpBAnd:
		r = t & o
	case wire.OpBXor:
		r = t ^ o
	case wire.OpDiff:
		r = t - o
	case wire.OpRead:
	case wire.OpWrite:
		r = o
	case wire.OpCSwap:
		set(c == t)
	case wire.OpCSwapNE:
		set(c != t)
	case wire.OpCSwapLE:
		set(c <= t)
	case wire.OpCSwapLT:
		set(c < t)
	case wire.OpCSwapGE:
		set(c >= t)
	case wire.OpCSwapGT:
		set(c > t)
	case wire.OpMSwap:
		r = o&c | t&^c
	}
	return r & (1<<s.Bits - 1), true
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// String describes the step for a report.
func (s Step) String() string {
	text := fmt.Sprintf("%v %#x", s.Op, s.Operand)
	if s.Compare != 0 {
		text += fmt.Sprintf(" if %#x", s.Compare)
	}
	if s.Fetches {
		text += fmt.Sprintf(" found %#x", s.Fetched)
	}
	return text
}

// CheckShared judges a pool of receives that several endpoints have: msgs are all messages
// sent to them, recvs all receives of the pool, and at the endpoint where each one that got a
// message got it. Beyond the rules of Check, by which only messages from one endpoint to
// another have an order, a message arrives at the endpoint that it was sent to.
func CheckShared(msgs []*Msg, recvs []*Recv, at map[*Recv]int) error {
	pairs := make(map[[2]int]int)
	pair := func(from, to int) int {
		k := [2]int{from, to}
		if _, ok := pairs[k]; !ok {
			pairs[k] = len(pairs)
		}
		return pairs[k]
	}
	var ms []*Msg
	for _, m := range msgs {
		m := *m
		m.From = pair(m.From, m.To)
		ms = append(ms, &m)
	}
	var rs []*Recv
	for _, r := range recvs {
		c := *r
		if c.Got != nil {
			g := *c.Got
			g.From = pair(g.From, at[r])
			c.Got = &g
		}
		rs = append(rs, &c)
	}
	return Check(ms, rs)
}

// Slot is memory that one program writes, always all of it, and that any program may
// read. Each write has contents of its own, as Fill makes them. There is no write
// before the previous one is known to be complete, so that at any time there is a
// last version that every reader must see, and perhaps one that it may see.
type Slot struct {
	Len      int // bytes
	versions []version
}

// version is the contents of one write into a slot. Moments are those of one clock.
type version struct {
	id    int // of its contents
	begin int // when it was asked for
	there int // when it was known to be there; 0: not yet, or never
}

// NewSlot makes a slot of n bytes that holds contents id.
func NewSlot(n, id int) *Slot {
	return &Slot{Len: n, versions: []version{{id: id, begin: -1, there: -1}}}
}

// Write notes that contents id are on their way.
func (s *Slot) Write(id, at int) { s.versions = append(s.versions, version{id: id, begin: at}) }

// Open reports whether the last write is not known to be there.
func (s *Slot) Open() bool { return s.versions[len(s.versions)-1].there == 0 }

// Settle notes that contents id are there, if they are the last that were written.
func (s *Slot) Settle(id, at int) {
	if v := &s.versions[len(s.versions)-1]; v.id == id && v.there == 0 {
		v.there = at
	}
}

// Judge returns an error unless b, read from off on between two moments, may have
// been there: each byte of the last version that was known to be complete, or of
// one that was being written.
func (s *Slot) Judge(b []byte, off, from, until int) error {
	may := s.seen(from, until)
	for _, v := range may {
		if DiffersAt(b, off, v.id, s.Len) < 0 {
			return nil
		}
	}
	torn := len(may) > 1
	for i := range b {
		ok := false
		for _, v := range may {
			ok = ok || b[i] == byteOf(v.id, off+i, s.Len)
		}
		if !ok || !torn {
			at := DiffersAt(b, off, may[0].id, s.Len)
			if torn {
				at = i
			}
			return fmt.Errorf("byte %d of %d is of none of the %d versions that may be there (the first is %#x)%s",
				off+at, s.Len, len(may), may[0].id, s.found(b[at:], off+at))
		}
	}
	return nil
}

// seen lists what may be read between two moments.
func (s *Slot) seen(from, until int) []version {
	first := 0
	for i, v := range s.versions {
		if v.there != 0 && v.there < from {
			first = i
		}
	}
	last := first + 1
	for last < len(s.versions) && s.versions[last].begin <= until {
		last++
	}
	return s.versions[first:last]
}

// found describes b for a report.
func (s *Slot) found(b []byte, off int) string {
	b = b[:min(len(b), 16)]
	for _, v := range s.versions {
		if DiffersAt(b, off, v.id, s.Len) < 0 {
			return fmt.Sprintf("; it is of %#x, begun at %d and there at %d", v.id, v.begin, v.there)
		}
	}
	return fmt.Sprintf("; found %x", b)
}

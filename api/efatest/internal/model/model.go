package model

import "fmt"

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

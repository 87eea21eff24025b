package peer

import (
	"cmp"
	"slices"
)

// Window puts messages into the order of their msg_id (§3.2): a ring for
// the next few and an overflow list for what is further ahead, which libfabric
// before 2.0 answered with abort(). Pure; the zero value is not usable.
type Window struct {
	exp     uint32   // the msg_id whose turn it is
	size    uint32   // of the ring
	at      uint32   // exp's place in the ring; ids wrap where the ring need not
	kept    uint32   // packets kept, and messages that have begun before their turn
	backlog *backlog // nil: none yet
}

// backlog is the packets that wait for their turn. Most windows never need one.
type backlog struct {
	ring      []*Packet // chains of packets, for exp and the ids after it
	over      map[uint32]*Packet
	unordered unordered
}

// Verdict is what Place did with a packet.
type Verdict uint8

// The verdicts.
const (
	InOrder    Verdict = iota // it is this message's turn: process it, then Advance
	Kept                      // kept in the ring
	Overflowed                // kept in the overflow list
	Stale                     // its turn is over
	Unordered                 // the window keeps no order: process it, its turn or not
)

// NewWindow makes a window of size messages (a power of two or not, 1 to
// settings.MaxRecvWindow) that expects msg_id first. What is further ahead goes to the
// overflow list.
func NewWindow(size int, first uint32) Window {
	return Window{exp: first, size: uint32(size)}
}

// Place decides about a packet, and keeps it if its turn is still to come. Ids
// wrap: what counts is the signed difference.
func (w *Window) Place(p *Packet) Verdict {
	if p.MsgID == w.exp {
		return InOrder
	}
	return w.place(p)
}

// place is Place of a packet whose turn it is not.
func (w *Window) place(p *Packet) Verdict {
	d := int32(p.MsgID - w.exp)
	if d < 0 {
		return Stale
	}
	w.open()
	if w.backlog.unordered.on && uint32(d) < reach {
		return w.markBegun(p.MsgID)
	}
	if uint32(d) < w.size {
		slot := &w.backlog.ring[(w.at+uint32(d))%w.size]
		*slot = (*slot).chain(p)
		w.kept++
		return Kept
	}
	if w.backlog.over == nil {
		w.backlog.over = make(map[uint32]*Packet)
	}
	w.backlog.over[p.MsgID] = w.backlog.over[p.MsgID].chain(p)
	w.kept++
	return Overflowed
}

// chain appends p to the packets kept for one msg_id; their first knows the last.
func (head *Packet) chain(p *Packet) *Packet {
	p.Next, p.last = nil, nil
	if head == nil {
		p.last = p
		return p
	}
	head.last.Next = p
	head.last = p
	return head
}

func (w *Window) open() {
	if w.backlog == nil {
		w.backlog = new(backlog)
	}
	if w.backlog.ring == nil {
		w.backlog.ring = make([]*Packet, w.size)
	}
}

// Advance moves on to the next msg_id and returns the packets kept for it, in
// the order of their arrival.
func (w *Window) Advance() *Packet {
	w.exp++
	if w.kept == 0 {
		return nil
	}
	return w.advance()
}

// advance is the part of Advance that few windows need.
func (w *Window) advance() *Packet {
	for w.kept > 0 {
		p := w.step(w.size)
		if !w.pass() {
			return p
		}
		if p != nil {
			p.Aborted = true // it is no first packet
			return p
		}
		w.exp++
	}
	return nil
}

// step takes what is kept for the msg_id that the window has come to.
func (w *Window) step(n uint32) *Packet {
	w.at = (w.at + 1) % n
	p := w.backlog.ring[w.at]
	w.backlog.ring[w.at] = nil
	if len(w.backlog.over) > 0 {
		// The window now reaches one id further.
		last := w.exp + n - 1
		if q, ok := w.backlog.over[last]; ok {
			delete(w.backlog.over, last)
			if n == 1 {
				p = q
			} else {
				w.backlog.ring[(w.at+n-1)%n] = q
			}
		}
	}
	for q := p; q != nil; q = q.Next {
		w.kept--
	}
	return p
}

// Expected is the msg_id whose turn it is.
func (w *Window) Expected() uint32 { return w.exp }

// Last is the msg_id of the latest message of which anything is kept, or else the one whose
// turn it is.
func (w *Window) Last() uint32 {
	var far uint32
	if w.kept > 0 {
		for d := range uint32(len(w.backlog.ring)) {
			if w.backlog.ring[(w.at+d)%w.size] != nil {
				far = d
			}
		}
		for id := range w.backlog.over {
			far = max(far, id-w.exp)
		}
		far = max(far, w.backlog.unordered.last(w.exp))
	}
	return w.exp + far
}

// Kept is the number of packets kept.
func (w *Window) Kept() int {
	if w.kept == 0 {
		return 0
	}
	return int(w.kept - w.backlog.unordered.begun)
}

// Remove takes out what is kept for an id whose turn has not come.
func (w *Window) Remove(id uint32) *Packet {
	d := id - w.exp
	if w.kept == 0 || d == 0 {
		return nil
	}
	var p *Packet
	if d < w.size {
		slot := &w.backlog.ring[(w.at+d)%w.size]
		p, *slot = *slot, nil
	} else {
		p = w.backlog.over[id]
		delete(w.backlog.over, id)
	}
	for q := p; q != nil; q = q.Next {
		w.kept--
	}
	return p
}

// Drain takes everything out, in no particular order of messages but the same
// every time: the ring, then the overflow list by id from exp on.
func (w *Window) Drain(f func(*Packet)) {
	free := func(p *Packet) {
		for p != nil {
			next := p.Next
			p.Next = nil
			f(p)
			p = next
		}
	}
	if w.kept == 0 {
		return
	}
	for i := range w.size {
		slot := &w.backlog.ring[(w.at+i)%w.size]
		free(*slot)
		*slot = nil
	}
	for _, id := range w.overflowIDs() {
		free(w.backlog.over[id])
	}
	w.backlog.over, w.kept = nil, 0
	w.backlog.unordered.bits, w.backlog.unordered.begun = nil, 0
}

func (w *Window) overflowIDs() []uint32 {
	ids := make([]uint32, 0, len(w.backlog.over))
	for id := range w.backlog.over {
		ids = append(ids, id)
	}
	sortBySeq(ids, w.exp)
	return ids
}

// sortBySeq orders ids by their distance from base, so that wrapped ids come
// last.
func sortBySeq(ids []uint32, base uint32) {
	slices.SortFunc(ids, func(a, b uint32) int { return cmp.Compare(a-base, b-base) })
}

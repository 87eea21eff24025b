package shm

import "fmt"

// kind is what a word says.
type kind uint8

// A post's states within one lap of the ring, and where the packet lies:
//
//	      receiver              sender               sender
//	idle -----------> posted -----------> claimed             post
//	       store                CAS
//	                                       -----------> ready cell
//	                                          store
//
// The receiver takes a packet without writing: only it needs to know that the place
// is free, and stores posted with the next lap when it reuses it.
const (
	idle kind = iota
	posted
	claimed
	ready
)

// word holds all state of a post or a cell at once:
//
//	63      48 47      32 31      16  15    14  13          2 1    0
//	+---------+----------+----------+-----+----+--------------+------+
//	|   lap   |  length  |   slot   | imm | wr |    sender    | kind |
//	+---------+----------+----------+-----+----+--------------+------+
//
// imm and wr: the marks of the packet (mark.go).
type word uint64

// The bits of a word that stay the same from the post to the packet, and those of its kind.
const (
	placeBits word = 0xffff<<48 | 0xffff<<16
	stateBits word = 0xffff<<48 | 3
	postBits       = placeBits | stateBits
)

func makeWord(k kind, lap, length, slot uint16, sender int) word {
	return word(lap)<<48 | word(length)<<32 | word(slot)<<16 | word(sender)<<2 | word(k)
}

// is reports whether w is of a kind and a lap.
func (w word) is(k kind, lap uint16) bool { return w&stateBits == word(lap)<<48|word(k) }

// by is the word that follows w: of the same lap and slot, by a sender.
func (w word) by(sender int, k kind) word { return w&placeBits | word(sender)<<2 | word(k) }

func (w word) kind() kind   { return kind(w & 3) }
func (w word) sender() int  { return int(w >> 2 & (maxSenders - 1)) }
func (w word) slot() uint16 { return uint16(w >> 16) }
func (w word) length() int  { return int(w >> 32 & 0xffff) }
func (w word) lap() uint16  { return uint16(w >> 48) }
func (w word) String() string {
	return fmt.Sprintf("%s lap=%d", [...]string{"idle", "posted", "claimed", "ready"}[w.kind()], w.lap())
}

// ident names a queue pair for as long as the host runs: its number and the
// generation of its segment. As a word of the sender table it is claimed with one
// CAS; 0 is none.
//
//	63             17 16      1  0
//	+----------------+--------+---+
//	|   generation   |  qpn   | 1 |
//	+----------------+--------+---+
type ident uint64

// maxGen bounds a generation.
const maxGen = 1<<47 - 1

func makeIdent(qpn uint16, gen uint64) ident { return ident(gen<<17 | uint64(qpn)<<1 | 1) }
func (i ident) qpn() uint16                  { return uint16(i >> 1) }
func (i ident) gen() uint64                  { return uint64(i >> 17) }
func (i ident) valid() bool                  { return i&1 != 0 && i>>17 != 0 && i&0x1fffe != 0 }

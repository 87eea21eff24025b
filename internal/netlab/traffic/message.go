package traffic

import (
	"encoding/binary"

	"github.com/efactor/efactor/actors/device"
)

// Job is a host's task, which it gets at its start.
type Job struct {
	Host  int   // its number, from 0
	Hosts int   // how many there are
	Count int   // requests to each other host; 0: until stopped
	Max   int   // bytes of the largest packet; 0: the MTU
	Block int   // bytes of an RDMA request; 0: 32 KiB
	Seed  int64 // for sizes
}

// Place is a queue pair and its memory, as others need it.
type Place struct {
	GID  device.GID
	QPN  uint16
	QKey uint32
	RKey uint64
	Base uint64
}

// order is a message of the test to a host.
type order struct {
	Peers  []Place // begin
	Stop   bool
	Report bool
}

// answer is a message of a host to the test.
type answer struct {
	Place   *Place  `json:",omitempty"` // ready
	Stopped bool    `json:",omitempty"` // nothing is outstanding
	Down    *Down   `json:",omitempty"`
	Report  *Report `json:",omitempty"`
	Error   string  `json:",omitempty"`
}

// Down says that requests to a host have begun to fail, or succeed again, and that
// none of those outstanding at that time is left.
type Down struct {
	Host   int
	Up     bool
	Status string
}

// Report is a host's record.
type Report struct {
	Peers []Seen
	MaxMS int64 // the longest time that a request took which failed
}

// Seen is a host's record of another host.
type Seen struct {
	Sent     Ranges // packets whose send completed well
	Failed   map[string]int
	Got      Ranges
	Twice    int // packets that came again
	Corrupt  int // packets, or bytes read, that are not what was sent
	Writes   int // that completed well
	Reads    int
	BadSlots int // blocks of its that are not what it wrote last; after Stop
}

// Ranges are numbers, as pairs of the first and the one behind the last.
type Ranges [][2]int

// rangesOf are the indices that are set.
func rangesOf(set []bool) Ranges {
	var r Ranges
	for i, ok := range set {
		switch {
		case !ok:
		case len(r) > 0 && r[len(r)-1][1] == i:
			r[len(r)-1][1]++
		default:
			r = append(r, [2]int{i, i + 1})
		}
	}
	return r
}

// Has reports whether n is one of them.
func (r Ranges) Has(n int) bool {
	for _, p := range r {
		if n >= p[0] && n < p[1] {
			return true
		}
	}
	return false
}

// Len is how many there are.
func (r Ranges) Len() int {
	n := 0
	for _, p := range r {
		n += p[1] - p[0]
	}
	return n
}

// tag identifies a packet or block: its sender, its receiver, and its number.
func tag(from, to, number int) uint64 {
	return uint64(from)<<56 | uint64(to)<<48 | uint64(number)
}

// fill makes bytes that follow from the tag, which comes first.
func fill(b []byte, tag uint64) []byte {
	x := tag*0x9e3779b97f4a7c15 + 1
	for i := 0; i < len(b); i += 8 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], x)
		copy(b[i:], w[:])
	}
	if len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, tag)
	}
	return b
}

// tagOf reads the tag and reports whether all bytes fit to it. scratch is as long as b.
func tagOf(b, scratch []byte) (uint64, bool) {
	if len(b) < 8 {
		return 0, false
	}
	t := binary.LittleEndian.Uint64(b)
	return t, string(fill(scratch[:len(b)], t)) == string(b)
}

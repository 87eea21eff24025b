package trail

import (
	"math/bits"
	"sync/atomic"

	"github.com/efactor/efactor/runtime/clock"
)

// Record says that something happened: 32 bytes, two to a cache line.
type Record struct {
	At   clock.Time
	Span uint64 // whose life it belongs to
	A    uint64
	B    uint32
	Kind Kind // not Gap
	Code uint8
	_    uint16
}

const lineBytes = 64

// Ring carries records from one writer at a time, a shard, to one reader at a time,
// without a lock. If it is full, records are dropped and counted, and a [Gap] stands in
// their place: the writer never waits.
//
// Invariants: read <= written; the reader touches cells in [read, written), the
// writer the others.
type Ring struct {
	cells []Record
	mask  uint64

	_       [lineBytes]byte
	written atomic.Uint64 // the writer's; published by Flush
	next    uint64        // the writer's own count
	room    uint64        // the writer may go on to here without reading read
	lost    atomic.Uint64 // the writer's
	told    uint64        // of lost, those reported by gaps
	_       [lineBytes]byte
	read    atomic.Uint64 // the reader's
}

// NewRing returns a ring for n records, rounded up to a power of two.
func NewRing(n int) *Ring {
	size := uint64(1) << bits.Len64(uint64(max(n, 2)-1))
	return &Ring{cells: make([]Record, size), mask: size - 1, room: size}
}

// Put writes a record, or drops and counts it if the ring is full. The reader sees
// it after Flush.
func (r *Ring) Put(rec Record) {
	if r.next == r.room && !r.more(rec.At) {
		r.lost.Add(1)
		return
	}
	r.cells[r.next&r.mask] = rec
	r.next++
}

// more looks how far the reader has come, and reports what was dropped since there
// was room.
func (r *Ring) more(now clock.Time) bool {
	r.room = r.read.Load() + uint64(len(r.cells))
	if r.next == r.room {
		return false
	}
	if n := r.lost.Load() - r.told; n > 0 {
		r.cells[r.next&r.mask] = Record{At: now, Kind: Gap, A: n}
		r.next++
		r.told += n
	}
	return r.next != r.room
}

// Flush publishes the records, once per turn. It returns the number of records
// written in all.
func (r *Ring) Flush() uint64 {
	if r.written.Load() != r.next {
		r.written.Store(r.next)
	}
	return r.next
}

// Drain calls f for the new records, oldest first, and returns their number.
func (r *Ring) Drain(f func(*Record)) int {
	from, to := r.read.Load(), r.written.Load()
	for i := from; i != to; i++ {
		f(&r.cells[i&r.mask])
	}
	r.read.Store(to)
	return int(to - from)
}

// Lost is the number of records that were dropped.
func (r *Ring) Lost() uint64 { return r.lost.Load() }

// Len is the ring's capacity in records.
func (r *Ring) Len() int { return len(r.cells) }

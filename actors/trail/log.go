package trail

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// Log takes the records of one endpoint. Its methods are called on the endpoint's
// shard, except Err.
type Log struct {
	ring  *Ring
	now   func() clock.Time
	kinds Kinds
	last  uint64

	notify  func() // called by Flush when there is much to read
	noticed uint64

	mu     sync.Mutex
	errs   []failure // by number
	failed uint32
}

type failure struct {
	n   uint32
	err error
}

// keptErrors is how many errors are kept for Err.
const keptErrors = 1 << 10

// Config is what a Log needs.
type Config struct {
	Ring  *Ring
	Now   func() clock.Time // stamps records
	Kinds Kinds             // 0: Everything
	// Notify is called by Flush when half of the ring has been written since the
	// last time; it may be nil.
	Notify func()
}

// New returns a log.
func New(c Config) *Log {
	if c.Kinds == 0 {
		c.Kinds = Everything
	}
	return &Log{ring: c.Ring, now: c.Now, kinds: c.Kinds, notify: c.Notify}
}

// Next returns the identifier of a new span; 0 if tracing is off.
func (l *Log) Next() uint64 {
	if l == nil {
		return 0
	}
	l.last++
	return l.last
}

// Put leaves a record.
func (l *Log) Put(span uint64, k Kind, code uint8, a uint64, b uint32) {
	if l != nil && span != 0 {
		l.put(span, k, code, a, b)
	}
}

func (l *Log) put(span uint64, k Kind, code uint8, a uint64, b uint32) {
	if l.kinds&(1<<k) != 0 {
		l.ring.Put(Record{At: l.now(), Span: span, Kind: k, Code: code, A: a, B: b})
	}
}

// Outcome writes the record of an outcome ([Told], [End] or the end of a peer or
// endpoint), and keeps err for Err.
func (l *Log) Outcome(span uint64, k Kind, bytes uint64, err error) {
	if l != nil && span != 0 {
		l.outcome(span, k, bytes, err)
	}
}

func (l *Log) outcome(span uint64, k Kind, bytes uint64, err error) {
	if err == nil {
		l.put(span, k, uint8(OK), bytes, 0)
		return
	}
	l.put(span, k, uint8(Failed), bytes, l.keep(err))
}

// keep notes an error and returns its number.
func (l *Log) keep(err error) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.errs == nil {
		l.errs = make([]failure, keptErrors)
	}
	l.failed++
	l.errs[l.failed%keptErrors] = failure{l.failed, err}
	return l.failed
}

// Err returns the error with a record's number; nil if it is no longer kept. Any
// goroutine may call it.
func (l *Log) Err(n uint32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.errs == nil || l.errs[n%keptErrors].n != n {
		return nil
	}
	return l.errs[n%keptErrors].err
}

// Locate writes the address of a peer or endpoint, and the path that it is on.
func (l *Log) Locate(span uint64, path uint8, addr *wire.RawAddr) {
	if l == nil {
		return
	}
	for i := range len(addr) / 8 {
		l.Put(span, Address, path, binary.LittleEndian.Uint64(addr[8*i:]), uint32(i))
	}
}

// Flush publishes the records to the reader, at the end of a turn.
func (l *Log) Flush() {
	if l != nil {
		l.flush()
	}
}

func (l *Log) flush() {
	n := l.ring.Flush()
	if l.notify != nil && n-l.noticed >= uint64(l.ring.Len()/2) {
		l.noticed = n
		l.notify()
	}
}

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

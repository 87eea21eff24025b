package ring

import (
	"math/bits"
	"runtime"
	"sync/atomic"

	"github.com/efactor/efactor/runtime/sys"
)

// cacheLine keeps words that different cores write apart.
const cacheLine = 64

func roundUp(n int) uint64 { return uint64(1) << bits.Len(uint(max(n, 2)-1)) }

// MPSC is a bounded queue with many producers and one consumer. Each cell has a sequence
// word that says which value is in it, so that a value and its word lie on neighbouring
// lines; the consumer gives cells back by a count, once for all that it has taken.
type MPSC[T any] struct {
	cells []cell[T]
	mask  uint64
	_     [cacheLine]byte
	tail  atomic.Uint64 // next to claim, by producers
	end   atomic.Uint64 // claims before it have room: the producers' last look at freed, and the size
	_     [cacheLine]byte
	freed atomic.Uint64 // cells that are the producers' again
	head  uint64        // next to take, the consumer's own
}

type cell[T any] struct {
	seq atomic.Uint64 // the ticket of the value
	val T
}

// NewMPSC makes a queue for at least n values.
func NewMPSC[T any](n int) *MPSC[T] {
	size := roundUp(n)
	return &MPSC[T]{cells: make([]cell[T], size), mask: size - 1}
}

// Claim takes the cell for the next value, to be filled in its place; nil if the queue is full.
// The ticket, for Publish, is above 0 and no other value of the queue has it. The cell is as the
// consumer has left it. Until it is published the consumer sees no later values
// either, so nothing that may take long or panic comes between. Any goroutine.
func (q *MPSC[T]) Claim() (v *T, ticket uint64) {
	for {
		t := q.tail.Load()
		sys.Step()
		if t >= q.end.Load() && !q.hasRoom(t) {
			return nil, 0
		}
		sys.Step()
		if q.tail.CompareAndSwap(t, t+1) {
			sys.Step()
			return &q.cells[t&q.mask].val, t + 1
		}
	}
}

// hasRoom looks whether there is room for claim t. Of two producers that look at once the
// later may enter the smaller count, which is no worse than an old one.
func (q *MPSC[T]) hasRoom(t uint64) bool {
	end := q.freed.Load() + q.mask + 1
	if t >= end {
		return false
	}
	sys.Step()
	q.end.Store(end)
	return true
}

// Publish lets the consumer see the value that was claimed with a ticket, soon: what the producer
// looks at next it may see as it was before. If that is a sign of the consumer's, such as that it
// sleeps, the consumer asks Idle after it has given the sign: Claim is before the producer's look,
// so that the producer sees the sign, or the consumer sees that there was a Claim.
func (q *MPSC[T]) Publish(ticket uint64) {
	sys.Step()
	sys.StoreRelease(&q.cells[(ticket-1)&q.mask].seq, ticket)
}

// Push copies *v in; false if the queue is full. Before that it sets ticket, which may be a
// field of *v or nil, to that of Claim. Any goroutine.
func (q *MPSC[T]) Push(v *T, ticket *uint64) bool {
	c, t := q.Claim()
	if c == nil {
		return false
	}
	if ticket != nil {
		*ticket = t
	}
	*c = *v
	q.Publish(t)
	return true
}

// Peek returns a pointer to the oldest value, nil if there is none. The cell stays
// the consumer's until Drop, or Free. Only the consumer may call it.
func (q *MPSC[T]) Peek() *T {
	head := q.head
	c := &q.cells[head&q.mask]
	if c.seq.Load() != head+1 {
		return nil
	}
	return &c.val
}

// Rest is Peek of a consumer that takes what is left: it waits for values that were claimed and
// not published yet, so that nil means that every Claim that has begun was dropped.
func (q *MPSC[T]) Rest() *T {
	for !q.Idle() {
		if v := q.Peek(); v != nil {
			return v
		}
		runtime.Gosched()
	}
	return nil
}

// Next goes on behind the value that Peek returned, and returns what Peek would then. The consumer
// has cleared the pointers in the value that the garbage collector must not see any more.
func (q *MPSC[T]) Next() *T {
	q.head++
	return q.Peek()
}

// Free returns the cells of the values behind which Next has gone to the producers.
func (q *MPSC[T]) Free() {
	sys.Step()
	sys.StoreRelease(&q.freed, q.head)
}

// Drop is both, of the value that Peek returned.
func (q *MPSC[T]) Drop() {
	q.head++
	q.Free()
}

// Idle reports whether every Claim that has begun was dropped: unlike Peek it is not
// misled by a producer that is halfway, ahead of others that are done. Only the
// consumer may call it.
func (q *MPSC[T]) Idle() bool { return q.tail.Load() == q.head }

// SPSC is a bounded queue with one producer and one consumer. Publish makes all
// values visible at once that the producer has put since the last one.
type SPSC[T any] struct {
	cells []T
	mask  uint64
	_     [cacheLine]byte
	put   uint64 // the producer's own
	freed uint64 // its last look at head
	_     [cacheLine]byte
	tail  atomic.Uint64 // published
	_     [cacheLine]byte
	head  atomic.Uint64 // taken
	seen  uint64        // the consumer's last look at tail
}

// NewSPSC makes a queue for at least n values.
func NewSPSC[T any](n int) *SPSC[T] {
	size := roundUp(n)
	return &SPSC[T]{cells: make([]T, size), mask: size - 1}
}

// Put returns the cell for the next value, which is zero, or nil if the queue is full. The value
// is the consumer's after Publish. Only the producer may call it.
func (q *SPSC[T]) Put() *T {
	if q.put-q.freed > q.mask {
		sys.Step()
		if q.freed = q.head.Load(); q.put-q.freed > q.mask {
			return nil
		}
	}
	c := &q.cells[q.put&q.mask]
	q.put++
	return c
}

// Publish makes the put values visible to the consumer. It returns false if there
// are none.
func (q *SPSC[T]) Publish() bool {
	if q.tail.Load() == q.put {
		return false
	}
	sys.Step()
	q.tail.Store(q.put)
	return true
}

// Take moves up to len(dst) values out and returns how many. Only the consumer may
// call it.
func (q *SPSC[T]) Take(dst []T) int {
	h := q.head.Load()
	if q.seen == h {
		sys.Step()
		if q.seen = q.tail.Load(); q.seen == h {
			return 0
		}
	}
	n := min(uint64(len(dst)), q.seen-h)
	cells, mask := q.cells, q.mask
	dst = dst[:n]
	for i := range dst {
		// The cell is zero then: what it refers to is the reader's alone, and the producer has to
		// set only what is not zero.
		c := &cells[(h+uint64(i))&mask]
		dst[i] = *c
		*c = *new(T)
	}
	sys.Step()
	sys.StoreRelease(&q.head, h+n)
	return int(n)
}

// Len is the number of published values not taken. Either side.
func (q *SPSC[T]) Len() int { return int(q.tail.Load() - q.head.Load()) }

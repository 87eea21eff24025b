package shard

import (
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/runtime/sys"
)

const inboxCells = 1024 // a power of two; 64 B each

// inbox carries entries from any goroutine to the shard's owner. Producers claim
// cells of a bounded ring by CAS; when it is full they spill into a list under a
// mutex, so no entry is lost and no producer waits for the owner.
//
// What one producer puts in comes out in that order. The rules that keep it so:
//
//   - A producer that sees spilled set spills too: it may not overtake its own entries.
//   - The owner takes the list first and notes the ring's tail, then empties the
//     ring up to there, then delivers the list: what a producer of the list had
//     in the ring is older and lies below that tail.
//   - spilled is cleared under the mutex, and only with both lists empty.
type inbox struct {
	cells   []cell
	spilled atomic.Bool
	_       [64]byte
	tail    atomic.Uint64 // next cell to claim
	_       [64]byte

	mu   sync.Mutex
	list []entry // spilled entries, newest last

	// owned by the consumer
	head    uint64
	taken   []entry // list that was taken, from next on still to deliver
	next    int
	barrier uint64 // ring position that must be reached before taken
	spare   []entry

	endMu sync.Mutex // makes the callers of cancelAll take turns as the consumer
}

// cell is one cache line, so that producers in neighbouring cells do not disturb each
// other. seq is pos when free for the producer of pos, pos+1 when published.
type cell struct {
	seq atomic.Uint64
	e   entry
	_   [64 - 8 - 32]byte
}

func newInbox(cells int) *inbox {
	q := &inbox{cells: make([]cell, cells)}
	for i := range q.cells {
		q.cells[i].seq.Store(uint64(i))
	}
	return q
}

// push may be called by any goroutine. It never fails.
func (q *inbox) push(m *mailbox, msg any, l lane) {
	if !q.spilled.Load() {
		if pos, ok := q.claim(); ok {
			sys.Step()
			q.publish(pos, m, msg, l)
			return
		}
	}
	q.spill(m, msg, l)
}

// claim takes a free cell for the caller, which must publish it.
func (q *inbox) claim() (pos uint64, ok bool) {
	pos = q.tail.Load()
	for {
		seq := q.cells[pos&uint64(len(q.cells)-1)].seq.Load()
		switch {
		case seq == pos:
			if q.tail.CompareAndSwap(pos, pos+1) {
				return pos, true
			}
			pos = q.tail.Load()
		case seq < pos:
			return 0, false // full: the consumer has not freed it
		default:
			pos = q.tail.Load()
		}
	}
}

func (q *inbox) publish(pos uint64, m *mailbox, msg any, l lane) {
	c := &q.cells[pos&uint64(len(q.cells)-1)]
	c.e.m, c.e.msg, c.e.lane = m, msg, l
	c.seq.Store(pos + 1)
}

func (q *inbox) spill(m *mailbox, msg any, l lane) {
	sys.Step()
	q.mu.Lock()
	q.spilled.Store(true)
	q.list = append(q.list, entry{m, msg, l})
	q.mu.Unlock()
}

// pop takes the next entry; consumer only. It reports false if there is none now.
func (q *inbox) pop() (entry, bool) {
	if q.taken == nil && q.spilled.Load() {
		q.takeSpilled()
	}
	return q.fetch()
}

// fetch takes the next entry: from the list that was taken, once the ring is empty up
// to the barrier, or from the ring.
func (q *inbox) fetch() (entry, bool) {
	if q.taken != nil && q.head >= q.barrier {
		return q.popTaken()
	}
	c := &q.cells[q.head&uint64(len(q.cells)-1)]
	if c.seq.Load() != q.head+1 {
		return entry{}, false
	}
	e := c.e
	c.e.m, c.e.msg = nil, nil
	c.seq.Store(q.head + uint64(len(q.cells)))
	q.head++
	return e, true
}

// takeSpilled fetches the spilled list, or clears the flag if there is none. A pinned
// owner must not wait for a mutex: if a producer holds it, the next pop tries again.
func (q *inbox) takeSpilled() {
	if !q.mu.TryLock() {
		return
	}
	if len(q.list) == 0 {
		q.spilled.Store(false)
	} else {
		q.taken, q.list = q.list, q.spare
		q.next, q.spare = 0, nil
		q.barrier = q.tail.Load()
	}
	q.mu.Unlock()
}

func (q *inbox) popTaken() (entry, bool) {
	e := q.taken[q.next]
	q.taken[q.next] = entry{}
	if q.next++; q.next == len(q.taken) {
		if cap(q.taken) <= 4*inboxCells {
			q.spare = q.taken[:0]
		}
		q.taken = nil
	}
	return e, true
}

// idle reports whether pop has returned all that was put in; consumer only.
func (q *inbox) idle() bool {
	return q.taken == nil && !q.spilled.Load() && q.tail.Load() == q.head
}

// cancelAll cancels what is in the inbox of a shard that has closed: for the last
// owner the messages that no actor will handle, for a producer what it posted too late.
// No lock is held over Canceled, which may post.
func (q *inbox) cancelAll(f *faults) {
	for {
		q.endMu.Lock()
		e, ok := q.pop()
		idle := !ok && q.idle()
		q.endMu.Unlock()
		switch {
		case idle:
			return
		case !ok:
			sys.Step()
			osYield() // a producer is between two steps
		case e.lane == laneRef || e.lane == lanePID:
			f.cancel(e.msg)
		}
	}
}

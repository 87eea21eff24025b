package device

import "github.com/efactor/efactor/runtime/shard"

// SlotWait is an actor's place in the queue for room in the send queue; the
// actor embeds it and is told of it as a message when there is room. Control
// packets go first: they cannot be rebuilt (V06).
type SlotWait struct {
	shard.Message
	To      shard.Ref
	Control bool

	next   *SlotWait
	queued bool
}

type waitList struct{ head, tail *SlotWait }

// AwaitSlot puts w in the queue, once.
func (q *Queue) AwaitSlot(w *SlotWait) {
	if w.queued {
		return
	}
	q.Counters.SlotWaits++
	l := &q.data
	if w.Control {
		l = &q.control
	}
	w.queued, w.next = true, nil
	if l.tail == nil {
		l.head = w
	} else {
		l.tail.next = w
	}
	l.tail = w
}

// wakeWaiters tells as many waiters as there is room for; who needs more waits
// again, behind the others.
func (q *Queue) wakeWaiters() int {
	n := 0
	for n < q.room {
		l := &q.control
		if l.head == nil {
			l = &q.data
		}
		w := l.head
		if w == nil {
			break
		}
		if l.head = w.next; l.head == nil {
			l.tail = nil
		}
		w.next, w.queued = nil, false
		q.sh.Tell(w.To, w)
		n++
	}
	return n
}

package device

import "github.com/efactor/efactor/runtime/shard"

// SlotWait is an actor's place in the queue for room in the send queue; the
// actor embeds it and gets a message when there is room. Control
// packets go first: they cannot be rebuilt.
type SlotWait struct {
	shard.Message
	To      shard.Ref
	next    *SlotWait
	Control bool
	queued  bool
}

type waitList struct{ head, tail *SlotWait }

// AwaitSlot puts w in the queue, once.
func (q *Queue) AwaitSlot(w *SlotWait) {
	if w.queued {
		return
	}
	q.Counters.SlotWaits++
	q.waiters++
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

// wakeWaiters tells as many waiters as there is room for. They take it at once, before
// new packets do; one that needs more waits again, behind the others.
func (q *Queue) wakeWaiters() int {
	n := 0
	for most := q.room; n < most && q.room > 0; {
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
		q.waiters--
		q.sh.Call(w.To, w)
		n++
	}
	return n
}

type pkeList struct{ head, tail *Pke }

// stall keeps a packet until the driver has room. Its owner learns of its end.
func (q *Queue) stall(p *Pke) {
	q.Counters.Stalled++
	p.Next, p.wr.Prompt = nil, false
	if q.stalled.tail == nil {
		q.stalled.head = p
	} else {
		q.stalled.tail.Next = p
	}
	q.stalled.tail = p
}

// unstall posts what had stalled, in order, and returns how many packets left.
func (q *Queue) unstall() int {
	n := 0
	rest := q.stalled
	q.stalled = pkeList{}
	for p := rest.head; p != nil; p = rest.head {
		rest.head, p.Next = p.Next, nil
		_, err := q.post(p)
		if q.stalled.head != nil { // there is still no room
			q.Counters.Stalled--
			if p.Next = rest.head; p.Next != nil {
				q.stalled.tail = rest.tail
			}
			break
		}
		n++
		if err != nil { // too late for an error of Post: it ends as a packet does
			p.problem.Status = StatusQPInternal
			q.Counters.SendProblem++
			q.sh.Tell(p.Peer, &p.problem)
		}
	}
	return n
}

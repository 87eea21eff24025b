package remote

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

// link is the way to another process, for as long as this one lives: PIDs keep it. It is the
// process in protoactor's sense of all actors there.
//
//	      a message           WELCOME, or HELLO of the other side
//	idle -----------> asking -----------------------------------> up
//	  ^                 |                                          |
//	  +-----------------+------------------------------------------+
//	       no answer           the peer failed, RESET, BYE, another session
//
// A message that finds nothing waiting, and whose receiver has sent something lately, is taken to
// the endpoint by the goroutine that sends it, so that a request and its answer take no other
// goroutine. Otherwise one is started that takes everything that has been queued until it comes to
// it, frame by frame, each of many messages. One goroutine at a time does either, so messages of one
// sender stay in order. While the other process does not take them, they wait, and then the senders do.
type link struct {
	r     *Remote
	name  string
	watch watches

	straight atomic.Int32 // how many messages need no other goroutine

	mu       sync.Mutex
	state    state
	at       efa.Addr // while not idle, once it was resolved
	mine     uint64   // the session's number here; 0: none
	theirs   uint64   // and there
	queue    []*batch // what waits; all but the last are full
	queued   int      // bytes of it, and of what is being sent
	asked    futures
	spare    *batch
	writing  bool          // somebody takes the queue to the endpoint
	room     chan struct{} // closed when there is some again; nil: nobody waits
	emptied  chan struct{} // closed when nothing is queued; nil: nobody waits
	answered chan struct{} // closed when asking ends; nil: not asking
	failure  *efa.Op       // ends with the peer
	retry    clock.Time    // until when nobody asks again
	backoff  time.Duration // how long that was
}

type state uint8

const (
	idle state = iota
	asking
	up
	ended
)

var _ actor.Process = (*link)(nil)

// The first and the longest time for which a process that did not answer is not asked again.
const (
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

// SendUserMessage implements actor.Process.
func (l *link) SendUserMessage(target *actor.PID, message any) {
	header, plain, sender := actor.UnwrapEnvelope(message)
	e := envelope{target: target, sender: sender, message: plain}
	if header != nil && header.Length() > 0 {
		e.header = header.ToMap()
	}
	// Nobody who receives for the process may wait: a dead letter's answer may come from there.
	_, answer := plain.(*actor.DeadLetterResponse)
	if err := l.post(&e, letter{target, message, false}, answer); err != nil {
		l.r.undeliverable(target, plain, err)
		l.r.dead(letter{target, message, false})
	}
}

// SendSystemMessage implements actor.Process.
func (l *link) SendSystemMessage(target *actor.PID, message any) {
	l.watch.sent(target, message)
	e := envelope{system: true, target: target, message: message}
	if err := l.post(&e, letter{target, message, true}, true); err != nil {
		l.lost(letter{target, message, true})
	}
}

// Stop implements actor.Process.
func (l *link) Stop(target *actor.PID) { l.SendSystemMessage(target, &actor.Stop{}) }

// post queues a message and has it leave. An urgent one does not wait for room, so that those who
// receive never wait for those who send.
func (l *link) post(e *envelope, orig letter, urgent bool) error {
	scratch := scratches.Get().(*[]byte)
	defer scratches.Put(scratch)
	body, codec, typ, err := l.r.codecs.append((*scratch)[:0], e.message)
	if err != nil {
		return err
	}
	if cap(body) <= keepBuf {
		*scratch = body
	}
	if len(body) > l.r.cfg.MaxMessage {
		return ErrTooLong
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.admit(len(body), urgent); err != nil {
		return err
	}
	if l.state == idle {
		if l.r.now() < l.retry {
			return ErrUnreachable
		}
		l.startAsking()
	}
	if e.sender != nil && e.sender.Address == l.r.name && isFuture(e.sender.Id) {
		l.asked.add(e.sender.Id, l.r)
	}
	b := l.open()
	was := len(b.buf)
	b.add(l.r.name, e, orig, codec, typ, body)
	l.queued += len(b.buf) - was
	switch {
	case l.state != up || l.writing:
	case l.straight.Load() > 0 && len(b.buf) <= l.r.inject:
		l.straight.Add(-1)
		l.writing = true
		l.write(1)
	default:
		l.flush()
	}
	return nil
}

var scratches = sync.Pool{New: func() any { return new([]byte) }}

// admit waits until there is room for n more bytes.
func (l *link) admit(n int, urgent bool) error {
	most := l.r.cfg.Queue
	if urgent {
		most *= 2
	}
	var patience *time.Timer
	for {
		switch {
		case l.state == ended:
			return ErrClosed
		case l.queued == 0 || l.queued+n <= most:
			return nil
		case urgent:
			return errFull
		}
		if patience == nil {
			patience = clock.NewTimer(l.r.cfg.Patience)
			defer patience.Stop()
		}
		if l.room == nil {
			l.room = make(chan struct{})
		}
		room := l.room
		l.mu.Unlock()
		select {
		case <-room:
			l.mu.Lock()
		case <-patience.C:
			l.mu.Lock()
			return errFull
		}
	}
}

// open is the batch that takes the next message.
func (l *link) open() *batch {
	if n := len(l.queue); n > 0 && len(l.queue[n-1].buf) < full {
		return l.queue[n-1]
	}
	b := l.spare
	if l.spare = nil; b == nil {
		b = newBatch()
	}
	l.queue = append(l.queue, b)
	return b
}

// burst is how many messages go straight to the endpoint for each frame that has come.
const burst = 4

// write takes so many batches of the queue to the endpoint, or, for -1, all. The link is locked, and
// writing is set.
func (l *link) write(batches int) {
	for n := 0; l.state == up && len(l.queue) > 0; n++ {
		if n == batches {
			l.writing = false
			l.flush()
			return
		}
		b := l.queue[0]
		l.queue[0] = nil
		if l.queue = l.queue[1:]; len(l.queue) == 0 {
			l.queue = nil
		}
		at, mine, size := l.at, l.mine, len(b.buf)-frameHead
		appendHead(b.buf[:0], kindData, l.theirs)
		l.mu.Unlock()
		err := l.r.send(at, b.buf, batches == 1)
		if err != nil {
			l.fail(mine, err)
			l.loseAll(b.letters)
		}
		b.reset()
		l.mu.Lock()
		l.spare = b
		l.queued -= size
		l.wake()
	}
	l.writing = false
}

// wake lets those who wait for room look again.
func (l *link) wake() {
	if l.room != nil && l.queued < l.r.cfg.Queue {
		close(l.room)
		l.room = nil
	}
	if l.emptied != nil && l.queued == 0 {
		close(l.emptied)
		l.emptied = nil
	}
}

// lost says where a message went that was accepted and not delivered.
func (l *link) lost(x letter) {
	if x.system {
		l.watch.lost(l.r, x)
		return
	}
	l.r.dead(x)
}

func (l *link) loseAll(letters []letter) {
	for _, x := range letters {
		l.lost(x)
	}
}

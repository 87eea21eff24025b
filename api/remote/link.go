package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
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

// Two processes talk in a session, in which each knows the other and has a number that names it. It
// begins with HELLO, which states the sender's number, and WELCOME, which states both, and ends where
// either side finds the other dead. Every other frame has the receiver's number, so that a
// process which was stopped, cut off or started again learns by RESET that its session is over,
// and with it everything that it has watched.

// askAgain is how often HELLO is sent until there is an answer.
const askAgain = 500 * time.Millisecond

// startAsking leaves idle. The link is locked.
func (l *link) startAsking() {
	answered := make(chan struct{})
	l.state, l.answered = asking, answered
	l.r.served.Go(func() { l.ask(answered) })
}

// ask begins a session; answered is closed when it need not any more.
func (l *link) ask(answered chan struct{}) {
	ctx, cancel := context.WithTimeout(l.r.ctx, l.r.cfg.Timeout)
	defer cancel()
	mine, err := l.toAsk(ctx, answered)
	again := clock.NewTimer(0)
	defer again.Stop()
	for err == nil {
		select {
		case <-again.C:
			again.Reset(askAgain)
			err = l.sayHello(answered)
		case <-answered:
			return
		case <-ctx.Done():
			err = fmt.Errorf("%w: no answer within %v", ErrUnreachable, l.r.cfg.Timeout)
		}
	}
	l.fail(mine, err)
}

// toAsk finds where the process is, and has this one ready for the answer.
func (l *link) toAsk(ctx context.Context, answered chan struct{}) (mine uint64, err error) {
	mine = newSession()
	address, err := l.r.resolve(ctx, l.name)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answered != answered { // it has asked us meanwhile
		return mine, nil
	}
	l.mine = mine
	if err != nil {
		return mine, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return mine, l.reach(address)
}

func (l *link) sayHello(answered chan struct{}) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answered != answered {
		return nil
	}
	h := hello{l.r.address, l.r.name}
	err := l.r.tell(l.at, h.append(appendHead(nil, kindHello, l.mine)))
	if errors.Is(err, efa.ErrAgain) {
		return nil // the next time will do
	}
	return err
}

// newSession is a number that no session had, as far as chance allows; not 0.
func newSession() uint64 { return rand.Uint64() | 1 }

// reach has the link's peer be at an address. The link is locked.
func (l *link) reach(a efa.Address) error {
	at, err := l.r.ep.AddressVector().Insert(a)
	if err != nil {
		return err
	}
	op, err := l.r.ep.Start(&efa.RecvReq{From: at, Directed: true, Tagged: true, Tag: tagWatch})
	if err != nil {
		return err
	}
	if l.failure != nil {
		l.failure.Cancel()
	}
	l.at, l.failure = at, op
	l.r.known(at, l)
	mine := l.mine
	l.r.served.Go(func() {
		<-op.Done()
		_, err := op.Wait(l.r.ctx)
		if err == nil {
			err = violation("a message with the tag of none")
		}
		if !errors.Is(err, efa.ErrCanceled) {
			l.fail(mine, err)
		}
	})
	return nil
}

// accept answers a HELLO that comes from where it says.
func (l *link) accept(a efa.Address, theirs uint64) {
	l.mu.Lock()
	if l.state == up && l.theirs == theirs { // the answer may be on its way
		l.welcome()
		l.mu.Unlock()
		return
	}
	if l.state == up { // it has begun anew
		l.mu.Unlock()
		l.fail(0, errForgotten)
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	if l.state == ended || l.state == up {
		return // the next HELLO will do
	}
	if l.mine == 0 {
		l.mine = newSession()
	}
	if err := l.reach(a); err != nil {
		l.r.log.Warn("remote: cannot answer", slog.String("address", l.name), slog.Any("err", err))
		return
	}
	l.begin(theirs)
	l.welcome()
	l.flush()
}

// welcome sends WELCOME. If it gets lost, the next HELLO is answered again.
func (l *link) welcome() {
	b := appendHead(nil, kindWelcome, l.theirs)
	_ = l.r.tell(l.at, appendHead(b, kindWelcome, l.mine)[:frameHead+frameHead])
}

// welcomed begins the session that was asked for.
func (l *link) welcomed(mine, theirs uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == asking && l.mine == mine {
		l.begin(theirs)
		l.flush()
	}
}

// begin has the session be up. The link is locked.
func (l *link) begin(theirs uint64) {
	l.stopAsking()
	l.state, l.theirs, l.backoff, l.retry = up, theirs, 0, 0
	l.r.system.EventStream.Publish(&Connected{Address: l.name})
}

func (l *link) stopAsking() {
	if l.answered != nil {
		close(l.answered)
		l.answered = nil
	}
}

// flush has what waits leave, by a goroutine of its own: who receives must not wait.
func (l *link) flush() {
	if len(l.queue) > 0 && !l.writing {
		l.writing = true
		l.r.served.Go(func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.write(-1)
		})
	}
}

// fail ends a session, or that it is asked for; mine 0 is whatever session there is. What waits is
// lost, and watchers of actors there learn of it.
func (l *link) fail(mine uint64, err error) {
	l.mu.Lock()
	if l.state == idle || l.state == ended || mine != 0 && l.mine != mine {
		l.mu.Unlock()
		return
	}
	asked := l.asked
	l.asked = futures{}
	letters := l.drop(idle)
	l.backoff = min(max(2*l.backoff, firstBackoff), maxBackoff)
	l.retry = l.r.now().Add(l.backoff)
	l.mu.Unlock()
	l.r.log.Warn("remote: process lost", slog.String("address", l.name), slog.Any("err", err))
	l.r.system.EventStream.Publish(&Lost{Address: l.name, Err: err})
	l.watch.failed(l.r, l.name)
	l.loseAll(letters)
	asked.lost(l.r)
}

// drop empties the link. It is locked.
func (l *link) drop(next state) []letter {
	l.stopAsking()
	var letters []letter
	for _, b := range l.queue {
		letters = append(letters, b.letters...)
		l.queued -= len(b.buf) - frameHead
	}
	l.r.unknown(l.at, l)
	if l.failure != nil {
		l.failure.Cancel()
	}
	l.queue, l.failure, l.mine, l.theirs, l.state = nil, nil, 0, 0, next
	l.wake()
	return letters
}

// end closes the link for good; the other side learns of it.
func (l *link) end() {
	l.mu.Lock()
	if l.state == ended {
		l.mu.Unlock()
		return
	}
	if l.state == up {
		_ = l.r.tell(l.at, appendHead(nil, kindBye, l.theirs)) // else it finds out by itself
	}
	asked := l.asked
	letters := l.drop(ended)
	l.mu.Unlock()
	l.watch.failed(l.r, l.name)
	l.loseAll(letters)
	asked.lost(l.r)
}

// drain waits until what is queued has left.
func (l *link) drain(ctx context.Context) error {
	for {
		l.mu.Lock()
		if l.state != up && l.state != asking || l.queued == 0 {
			l.mu.Unlock()
			return nil
		}
		if l.emptied == nil {
			l.emptied = make(chan struct{})
		}
		emptied := l.emptied
		l.mu.Unlock()
		select {
		case <-emptied:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ping asks whether the session is known, since a process that only waits would not learn it.
func (l *link) ping() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == up {
		_ = l.r.tell(l.at, appendHead(nil, kindPing, l.theirs)) // the next time will do
	}
}

// in reports whether a frame of the link's peer belongs to the session.
func (l *link) in(session uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return (l.state == up || l.state == asking) && l.mine == session
}

// forgotten ends the session that the other side has called unknown.
func (l *link) forgotten(theirs uint64, err error) {
	l.mu.Lock()
	mine := l.mine
	if l.state != up || l.theirs != theirs {
		mine = 0
	}
	l.mu.Unlock()
	if mine != 0 {
		l.fail(mine, err)
	}
}

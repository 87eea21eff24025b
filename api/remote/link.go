package remote

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

// link is a session with another process, from the first message or its HELLO to the end.
//
//	a message            WELCOME, or HELLO of the other side
//	----------> asking -------------------------------------> up
//	              |                                           |
//	              +------------------> over <-----------------+
//	          no answer         the peer failed, RESET, BYE, another session
//
// A question, whose sender is a future, is taken to the endpoint by the goroutine that asks, which is about to wait for the
// answer, if nothing is queued and the other side has sent something lately. Other messages are queued, and a goroutine of
// the crew takes everything to the endpoint that has been queued until it comes to it, frame by frame, each of
// many messages: an actor's goroutine is often a new one, whose stack would have to grow. One goroutine at a time does
// either, so messages of one sender stay in order. While the other process does not take them, they wait, and then the senders do:
// what it has not handled yet is a window at most, see kindCredit.
type link struct {
	lane  lane
	r     *Remote
	name  string          // what actors there are called here, whatever name leads to the link
	mine  uint64          // the session's number here
	ctx   context.Context // ends with the session; not with the peer: what has come of it is received
	over  context.CancelFunc
	names []*name // that lead here; the table's lock guards it

	handled  uint64 // bytes of messages that were handed to actors; of the goroutine in the lane
	credited uint64 // and that the other side was told of

	straight atomic.Int32 // how many questions need no other goroutine

	mu       sync.Mutex
	state    state
	at       efa.Addr // once it was resolved
	theirs   uint64   // the session's number there
	queue    []*batch // what waits; all but the last are full
	queued   int      // bytes of it, and of what is being sent
	sent     uint64   // bytes of messages that were sent
	taken    uint64   // and that the other side has handled
	asked    futures
	watches  watches
	spare    []*batch
	writing  bool          // somebody takes the queue to the endpoint
	room     chan struct{} // closed when there is some again; nil: nobody waits
	emptied  chan struct{} // closed when nothing is queued; nil: nobody waits
	answered chan struct{} // closed when asking ends; nil: not asking
	failure  *efa.Op       // ends with the peer
}

type state uint8

const (
	asking state = iota
	up
	ended
)

// errOver: the message may leave by the link that takes this one's place.
var errOver = errors.New("remote: the session is over")

// The first and the longest time for which a process that did not answer is not asked again.
const (
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

// window is how many bytes of messages a process has at most that the other side has not handled; a frame
// counts frameCost more than its body.
const (
	window    = 4 << 20
	frameCost = 256
)

// status is what a link is now: while the table is locked, it does not end.
func (l *link) status() (over, isUp bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == ended, l.state == up
}

func (l *link) isUp() bool {
	_, isUp := l.status()
	return isUp
}

// peer is where the session's other side is, and whether that is known and the session is not over.
func (l *link) peer() (at efa.Addr, there bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at, l.failure != nil
}

// post queues a message and has it leave. An urgent one does not wait for room, so that those who
// receive never wait for those who send.
func (l *link) post(name string, e *envelope, x letter, codec, typ string, body []byte, urgent bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.admit(len(body), urgent); err != nil {
		return err
	}
	asks := e.sender != nil && e.sender.Address == l.r.name && isFuture(e.sender.Id)
	if asks {
		l.asked.add(e.sender.Id, l.r)
	}
	if e.system {
		l.watches.sent(name, e.target, e.message)
	}
	b := l.open()
	was := len(b.buf)
	b.add(l.r.name, e, x, codec, typ, body)
	l.queued += len(b.buf) - was
	switch {
	case l.state != up || l.writing:
	case asks && l.straight.Load() > 0 && len(l.queue) == 1 && l.writable() && len(b.buf) <= l.r.inject:
		l.straight.Add(-1)
		l.writing = true
		b, at := l.next()
		l.mu.Unlock()
		l.left(b, l.r.fly(at, b, true).err)
		l.mu.Lock()
		l.writing = false
		l.flush()
	default:
		l.flush()
	}
	return nil
}

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
			return errOver
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
	var b *batch
	if n := len(l.spare); n > 0 {
		b, l.spare = l.spare[n-1], l.spare[:n-1]
	} else {
		b = newBatch()
	}
	l.queue = append(l.queue, b)
	return b
}

// burst is how many questions go straight to the endpoint for each frame that has come.
const burst = 4

// writable reports whether there is something to send, and the other side may be sent it.
func (l *link) writable() bool {
	return l.state == up && len(l.queue) > 0 && l.sent-l.taken < window
}

// next takes the first frame out of the queue. The link is locked, and writable.
func (l *link) next() (b *batch, at efa.Addr) {
	b = l.queue[0]
	l.queue[0] = nil
	if l.queue = l.queue[1:]; len(l.queue) == 0 {
		l.queue = nil
	}
	l.sent += uint64(len(b.buf) - frameHead + frameCost)
	appendHead(b.buf[:0], kindData, l.theirs)
	return b, l.at
}

// send has all that is queued leave, for flush.
func (l *link) send() {
	var flights []flight
	for first := true; ; first = false {
		l.mu.Lock()
		switch {
		case l.writable() && len(flights) < mostFlights:
			b, at := l.next()
			l.mu.Unlock()
			if f := l.r.fly(at, b, first); f.op != nil {
				flights = append(flights, f)
			} else {
				l.left(b, f.err)
			}
		case len(flights) > 0:
			l.mu.Unlock()
			l.left(flights[0].b, l.r.landed(flights[0].op))
			flights = slices.Delete(flights, 0, 1)
		default:
			l.writing = false
			l.spare = slices.Delete(l.spare, min(len(l.spare), mostFlights), len(l.spare))
			l.mu.Unlock()
			return
		}
	}
}

// flight is a frame on its way.
type flight struct {
	b   *batch
	op  *efa.Op // nil: it has left, or not
	err error
}

// mostFlights is how many frames are on their way to a process at most: the next ones are there when it has handled the
// first.
const mostFlights = 4

// left is the end of a frame that has left, or has not.
func (l *link) left(b *batch, err error) {
	if err != nil {
		l.fail(err)
		for _, x := range b.letters {
			l.r.lose(x)
		}
	}
	size := len(b.buf) - frameHead
	b.reset()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spare = append(l.spare, b)
	l.queued -= size
	l.wake()
}

// wake lets those who wait for room look again.
func (l *link) wake() {
	if l.room != nil && (l.queued < l.r.cfg.Queue || l.state == ended) {
		close(l.room)
		l.room = nil
	}
	if l.emptied != nil && (l.queued == 0 || l.state == ended) {
		close(l.emptied)
		l.emptied = nil
	}
}

// Two processes talk in a session, in which each knows the other and has a number that names it. It
// begins with HELLO, which states the sender's number, and WELCOME, which states both, and ends where
// either side finds the other dead. Every other frame has the receiver's number, so that a
// process which was stopped, cut off or started again learns by RESET that its session is over,
// and with it everything that it has watched.

// askAgain is how often HELLO is sent until there is an answer.
const askAgain = 500 * time.Millisecond

// newSession is a number that no session had, as far as chance allows; not 0.
func newSession() uint64 { return rand.Uint64() | 1 }

// startAsking begins a session.
func (l *link) startAsking() {
	l.mu.Lock()
	defer l.mu.Unlock()
	answered := make(chan struct{})
	l.answered = answered
	l.r.served.Go(func() { l.ask(answered) })
}

// ask begins a session; answered is closed when it need not any more.
func (l *link) ask(answered chan struct{}) {
	ctx, cancel := context.WithTimeout(l.r.ctx, l.r.cfg.Timeout)
	defer cancel()
	a, err := l.r.resolve(ctx, l.name)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrUnreachable, err)
	} else {
		err = l.r.names.found(l, a)
	}
	again := clock.NewTimer(0)
	defer again.Stop()
	for err == nil {
		select {
		case <-again.C:
			again.Reset(askAgain)
			err = l.sayHello()
		case <-answered:
			return
		case <-ctx.Done():
			err = fmt.Errorf("%w: no answer within %v", ErrUnreachable, l.r.cfg.Timeout)
		}
	}
	select {
	case <-answered: // it has asked us meanwhile
	default:
		l.fail(err)
	}
}

func (l *link) sayHello() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != asking {
		return nil
	}
	h := hello{l.r.address, l.r.name}
	err := l.r.tell(l.at, h.append(appendHead(nil, kindHello, l.mine)))
	if errors.Is(err, efa.ErrAgain) {
		return nil // the next time will do
	}
	return err
}

// reached has the link's peer be at an address, until failure ends.
func (l *link) reached(at efa.Addr, failure *efa.Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure != nil {
		l.failure.Cancel()
	}
	l.at, l.failure = at, failure
	l.r.served.Go(func() {
		<-failure.Done()
		_, err := failure.Wait(l.r.ctx)
		if err == nil {
			err = violation("a message with the tag of none")
		}
		if !errors.Is(err, efa.ErrCanceled) {
			l.fail(err)
		}
	})
}

// begin has the session be up, and sends what waits.
func (l *link) begin(theirs uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopAsking()
	l.state, l.theirs = up, theirs
	l.flush()
}

func (l *link) stopAsking() {
	if l.answered != nil {
		close(l.answered)
		l.answered = nil
	}
}

// welcome sends WELCOME. If it gets lost, the next HELLO is answered again.
func (l *link) welcome() {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := appendHead(nil, kindWelcome, l.theirs)
	_ = l.r.tell(l.at, appendHead(b, kindWelcome, l.mine))
}

// flush has what waits leave, by a goroutine of the crew: who receives must not wait.
func (l *link) flush() {
	if l.writable() && !l.writing {
		l.writing = true
		l.r.served.Add(1)
		l.r.crew.do(l)
	}
}

// fail ends a session, or that it is asked for.
func (l *link) fail(err error) {
	t := &l.r.names
	t.mu.Lock()
	tell := t.fail(l, err)
	t.mu.Unlock()
	tell()
}

// remains is what a link had when it was over.
type remains struct {
	any     bool // it was not over before
	queue   []*batch
	queued  int
	letters []letter
	asked   futures
	watches watches
}

// drop has the link be over, for a reason if it was up.
func (l *link) drop(err error) (had remains) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == ended {
		return had
	}
	l.stopAsking()
	had = remains{any: true, queue: l.queue, asked: l.asked, watches: l.watches}
	for _, b := range l.queue {
		had.letters = append(had.letters, b.letters...)
		had.queued += len(b.buf) - frameHead
	}
	if l.failure != nil {
		l.failure.Cancel()
	}
	if !errors.Is(err, efa.ErrPeerFailed) {
		l.over()
	}
	l.queue, l.queued, l.failure, l.state = nil, l.queued-had.queued, nil, ended
	l.asked, l.watches = futures{}, watches{}
	l.wake()
	return had
}

// lost has everybody learn who waits for something of a process that is lost.
func (had *remains) lost(r *Remote, name string) {
	had.watches.failed(r, name)
	for _, x := range had.letters {
		r.lose(x)
	}
	had.asked.lost(r)
}

// take has what waited for another link wait for this one.
func (l *link) take(from *remains) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, from.queue...)
	l.queued += from.queued
	for id := range from.asked.waiting {
		l.asked.add(id, l.r)
	}
	for k, names := range from.watches.ours {
		l.watches.add(k, names...)
	}
	l.flush()
}

// end closes the link for good; the other side learns of it at once, and then everybody here who waits for
// something: dead letters are the application's to handle.
func (l *link) end() {
	l.mu.Lock()
	if l.state == up {
		_ = l.r.tell(l.at, appendHead(nil, kindBye, l.theirs)) // else it finds out by itself
	}
	l.mu.Unlock()
	had := l.drop(ErrClosed)
	l.r.served.Go(func() { had.lost(l.r, l.name) })
}

// drain waits until what is queued has left.
func (l *link) drain(ctx context.Context) error {
	for {
		l.mu.Lock()
		if l.state == ended || l.queued == 0 {
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

// forgotten ends the session that the other side has called unknown.
func (l *link) forgotten(theirs uint64) {
	l.mu.Lock()
	known := l.state == up && l.theirs == theirs
	l.mu.Unlock()
	if known {
		l.fail(errForgotten)
	}
}

// credit takes how much of what was sent the other side has handled.
func (l *link) credit(taken uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if taken > l.taken && taken <= l.sent {
		l.taken = taken
		l.flush()
	}
}

// grant tells the other side, now and then, how much of what it has sent was handled.
func (l *link) grant(n int) {
	if l.handled += uint64(n); l.handled-l.credited < window/4 {
		return
	}
	l.credited = l.handled
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != up {
		return
	}
	at, b := l.at, binary.LittleEndian.AppendUint64(appendHead(nil, kindCredit, l.theirs), l.handled)
	if err := l.r.tell(at, b); errors.Is(err, efa.ErrAgain) {
		l.r.served.Go(func() { _ = l.r.ep.SendTag(l.r.ctx, at, tagOf(b), b) }) // it waits for its place; another error ends the session
	}
}

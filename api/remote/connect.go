package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

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

// reset answers a frame of an unknown session by the number that the frame had.
func (r *Remote) reset(at efa.Addr, session uint64) {
	_ = r.tell(at, appendHead(nil, kindReset, session)) // the next frame is answered again
}

// hello looks who it is that says HELLO, and answers.
func (r *Remote) hello(m *efa.Message, session uint64, body []byte) {
	var h hello
	if err := h.parse(body); err != nil {
		r.counts.malformed.Add(1)
		return
	}
	if session == 0 || !isFrom(m, h.address) || h.name == r.name {
		r.counts.malformed.Add(1)
		return
	}
	l := r.link(h.name)
	if l == nil {
		return
	}
	if at, err := efa.ParseAddress(h.name); err == nil {
		if at.Equal(h.address) {
			l.accept(h.address, session)
		}
		return
	}
	select { // a process with another name is asked for there, by another goroutine
	case r.verifying <- struct{}{}:
	default:
		return // HELLO comes again
	}
	r.served.Go(func() {
		defer func() { <-r.verifying }()
		ctx, cancel := context.WithTimeout(r.ctx, r.cfg.Timeout)
		defer cancel()
		at, err := r.resolve(ctx, h.name)
		if err != nil || !at.Equal(h.address) {
			r.log.Warn("remote: a process is not where its name leads", slog.String("name", h.name), slog.Any("err", err))
			return
		}
		l.accept(h.address, session)
	})
}

// welcome takes a WELCOME.
func (r *Remote) welcome(l *link, mine uint64, body []byte) {
	if l == nil || len(body) != frameHead || !bytes.Equal(body[:1], []byte{byte(kindWelcome)}) {
		r.counts.malformed.Add(1)
		return
	}
	if theirs := session(body); theirs != 0 {
		l.welcomed(mine, theirs)
	}
}

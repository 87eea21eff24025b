package remote

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

// receiver takes frames, all by one goroutine, which also hands messages to actors. What is not the
// Remote's own may hold that goroutine up: a bounded mailbox that is full, a codec, a subscriber of dead letters, a
// peer that does not send the rest of a long frame. Then another one goes on in its place, and
// what comes from the same peer meanwhile waits in the peer's lane.
type receiver struct {
	r       *Remote
	current *taker
	armed   atomic.Bool   // the guard looks
	wake    chan struct{} // has it look
}

// taker is a goroutine that receives.
type taker struct {
	lane atomic.Pointer[lane] // that it is in
	turn atomic.Uint64        // counts the beginnings and ends of its turns, so it is odd within one
	over atomic.Bool
}

// replaced is the bit of taker.turn of one in whose place there is another.
const replaced = 1 << 63

// heldUp is from when on a turn takes so long that another goroutine receives.
const heldUp = 10 * time.Millisecond

// So many times more often within turns of one peer than not is most of the time: each time that it is
// not counts as missed others.
const (
	maxHits = 8
	missed  = 4
)

// lane is what comes from one peer, which is handled by one goroutine at a time.
type lane struct {
	of    *link // nil: of all peers without a session
	stuck atomic.Bool

	mu      sync.Mutex
	waiting []arrival
	bytes   int // of them
}

// arrival is a frame, or a message that is to be received before it is one.
type arrival struct {
	message efa.Message
	frame   []byte
	long    *efa.Claimed
}

// maxOfStrangers is how many bytes of frames of peers without a session wait; they are sent again.
const maxOfStrangers = 1 << 20

func (v *receiver) start() {
	v.wake = make(chan struct{}, 1)
	v.current = &taker{}
	go v.run(v.current)
	v.r.served.Go(v.guard)
}

// guard puts another goroutine in the place of one that is held up: in one turn, or, most of the time, by
// one peer. It ends when that which receives has ended, or is held up.
func (v *receiver) guard() {
	timer := clock.NewTimer(heldUp)
	defer timer.Stop()
	var seen uint64
	var last *lane
	hits := 0 // how often the goroutine was seen in that lane, of late
	for {
		if !v.armed.Load() {
			select {
			case <-v.wake:
			case <-v.r.ctx.Done():
			}
		}
		timer.Reset(heldUp)
		select {
		case <-timer.C:
		case <-v.wake:
		}
		t := v.current
		turn, in := t.turn.Load(), t.lane.Load()
		within := turn&1 == 1
		if within && in == last {
			hits++
		} else {
			hits = max(0, hits-missed)
		}
		switch {
		case t.over.Load():
			return
		case !within && turn == seen: // nothing comes
			if v.armed.Store(false); t.turn.Load() != turn {
				v.armed.Store(true)
			}
		case within && (turn == seen || hits >= maxHits) && v.replace(t, turn):
			if v.r.ctx.Err() != nil {
				return
			}
			turn, hits, v.current = 0, 0, &taker{}
			go v.run(v.current)
		}
		seen, last = turn, in
	}
}

// replace has a taker be replaced if it is still in the same turn, and what comes in its lane wait.
func (v *receiver) replace(t *taker, turn uint64) bool {
	l := t.lane.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !t.turn.CompareAndSwap(turn, turn|replaced) {
		return false
	}
	l.stuck.Store(true)
	return true
}

// enter begins a turn in a lane.
func (v *receiver) enter(t *taker, l *lane) uint64 {
	t.lane.Store(l)
	turn := t.turn.Add(1)
	if !v.armed.Load() && v.armed.CompareAndSwap(false, true) {
		select {
		case v.wake <- struct{}{}:
		default:
		}
	}
	return turn
}

// run takes frames until the endpoint or the Remote ends, or another goroutine does it.
func (v *receiver) run(t *taker) {
	r := v.r
	defer t.over.Store(true)
	defer func() {
		select {
		case v.wake <- struct{}{}:
		default:
		}
	}()
	for {
		d, err := r.ep.NextTag(r.ctx, efa.Match{Tag: tagFrames}, efa.OnePacket)
		var long *efa.TooLongError
		switch {
		case err == nil:
			on := v.turn(t, arrival{message: d.Message, frame: d.Body})
			d.Release()
			if !on {
				t.lane.Load().catchUp(r)
				return
			}
			runtime.Gosched() // the actors that have got something are next, on this processor
		case errors.As(err, &long):
			if !v.turn(t, arrival{message: long.Claimed.Message, long: long.Claimed}) {
				t.lane.Load().catchUp(r)
				return
			}
		case r.ctx.Err() != nil:
			return
		case errors.Is(err, efa.ErrClosed), errors.Is(err, efa.ErrIO), errors.Is(err, efa.ErrBadState):
			if r.names.closing() {
				return
			}
			r.log.Error("remote: nothing is received any more", slog.Any("err", err))
			for _, l := range r.names.all() {
				l.fail(err)
			}
			return
		}
		// Other errors are of the one message: its sender has failed.
	}
}

// turn handles what has come, or has it wait. It reports whether the taker is to go on.
func (v *receiver) turn(t *taker, a arrival) bool {
	l, in := v.r.names.of(a.message.From), &v.r.strangers
	if l != nil && !a.isFor(kindHello) {
		in = &l.lane
	}
	if in.stuck.Load() && in.put(a) {
		return true
	}
	turn := v.enter(t, in)
	v.r.arrived(in.of, a)
	return t.turn.CompareAndSwap(turn, turn+1)
}

// isFor reports whether a frame is of a kind.
func (a *arrival) isFor(k kind) bool { return len(a.frame) > 0 && kind(a.frame[0]) == k }

// size is what it counts of the window.
func (a *arrival) size() int { return a.message.N - frameHead + frameCost }

// put has an arrival wait, and reports whether it does: else the lane is free.
func (n *lane) put(a arrival) bool {
	n.mu.Lock()
	if !n.stuck.Load() {
		n.mu.Unlock()
		return false
	}
	l, most := n.of, maxOfStrangers
	if l != nil {
		most = window
	}
	switch {
	case a.isFor(kindPing): // it is in a session, as far as can be said now
	case l != nil && a.isFor(kindCredit): // which is what senders here may be waiting for
		n.mu.Unlock()
		l.r.frame(l, &a.message, a.frame)
		return true
	case n.bytes < most:
		a.frame = slices.Clone(a.frame)
		n.bytes += a.size()
		n.waiting = append(n.waiting, a)
	case l != nil:
		n.mu.Unlock()
		l.r.counts.malformed.Add(1)
		l.fail(violation("more than %d bytes of messages that were not handled", window))
		return true
	}
	n.mu.Unlock()
	return true
}

// catchUp handles what has waited until there is nothing more.
func (n *lane) catchUp(r *Remote) {
	for {
		n.mu.Lock()
		if len(n.waiting) == 0 || r.ctx.Err() != nil {
			n.waiting, n.bytes = nil, 0
			n.stuck.Store(false)
			n.mu.Unlock()
			return
		}
		a := n.waiting[0]
		n.waiting = n.waiting[1:]
		n.bytes -= a.size()
		n.mu.Unlock()
		r.arrived(n.of, a)
	}
}

// arrived handles a frame of a link, or of a peer without one.
func (r *Remote) arrived(l *link, a arrival) {
	if a.long == nil {
		r.frame(l, &a.message, a.frame)
		return
	}
	n := a.long.Message.N
	if l == nil {
		r.counts.malformed.Add(1)
		r.discard(a.long)
		return
	}
	if n > r.cfg.MaxMessage+full {
		r.counts.malformed.Add(1)
		r.warn("remote: frame dropped", slog.String("address", l.name), slog.Int("bytes", n), slog.Any("err", ErrTooLong))
		_ = a.long.Discard(l.ctx)
		r.dropped(l, &a)
		return
	}
	b := longs.Get().(*[]byte)
	if cap(*b) < n {
		*b = make([]byte, n)
	}
	if m, err := a.long.Recv(l.ctx, (*b)[:n]); err == nil {
		r.frame(l, &m, (*b)[:m.N])
	} else {
		r.dropped(l, &a)
	}
	if cap(*b) <= keepBuf {
		longs.Put(b)
	}
}

// dropped is the end of a frame that was not received: its sender waits for the room that it took all the same.
func (r *Remote) dropped(l *link, a *arrival) {
	switch over, up := l.status(); {
	case over:
		r.discard(a.long) // if it was over before the frame's turn came
	case up:
		l.grant(a.size())
	}
}

// longs are buffers for frames of more than a packet.
var longs = sync.Pool{New: func() any { return new([]byte) }}

// maxDiscards is how many messages of peers without a link are thrown away at a time. What is beyond that
// stays, and counts as its sender's unexpected messages.
const maxDiscards = 4

// discard throws a message of a peer without a link away, which takes as long as its sender likes.
func (r *Remote) discard(c *efa.Claimed) {
	n := &r.discards
	if n.Add(1) > maxDiscards {
		n.Add(-1)
		return
	}
	go func() { // not in served: this goroutine may be one that Close does not wait for
		defer n.Add(-1)
		_ = c.Discard(r.ctx)
	}()
}

// session is the number in a frame's head.
func session(b []byte) uint64 { return binary.LittleEndian.Uint64(b[1:frameHead]) }

// frame takes a frame of a link, or of a peer without one.
func (r *Remote) frame(l *link, m *efa.Message, b []byte) {
	if len(b) < frameHead {
		r.counts.malformed.Add(1)
		return
	}
	k, s, body := kind(b[0]), session(b), b[frameHead:]
	switch k {
	case kindHello:
		if r.answers.may(m.Raw(), answersEvery, r.now()) { // else it comes again
			r.greeters.hello(m, s, body)
		}
	case kindWelcome:
		r.welcome(l, s, body)
	case kindData, kindPing, kindBye, kindCredit:
		switch {
		case l == nil || l.mine != s:
			if k != kindBye && k != kindCredit && r.answers.may(m.Raw(), answersEvery, r.now()) {
				r.names.answer(m, appendHead(nil, kindReset, s)) // by the number that the frame had
			}
		case k == kindBye:
			l.fail(ErrClosed)
		case k == kindData:
			r.data(l, body)
			l.grant(len(body) + frameCost)
		case k == kindCredit:
			if len(body) != 8 {
				r.counts.malformed.Add(1)
				return
			}
			l.credit(binary.LittleEndian.Uint64(body))
		}
	case kindReset:
		if l != nil {
			l.forgotten(s)
		}
	default:
		r.counts.malformed.Add(1)
	}
}

// data delivers the envelopes of a frame.
func (r *Remote) data(l *link, b []byte) {
	l.straight.Store(burst)
	in := reader{b: b, own: r.name, from: l.name}
	var latest [2]string
	var d decoder
	for len(in.b) > 0 {
		e, codec, typ, body, err := in.next()
		if err != nil {
			r.counts.malformed.Add(1)
			r.warn("remote: frame dropped", slog.String("address", l.name), slog.Any("err", err))
			return
		}
		if now := [2]string{codec, typ}; d == nil || now != latest {
			d, latest = r.codecs.decoder(codec, typ), now
		}
		if e.message, err = d.decode(body); err != nil {
			r.undecodable(&e, codec, typ, err)
			continue
		}
		r.deliver(l, &e)
	}
}

// undecodable drops a message. A sender that waits for an answer gets a DeadLetterResponse.
func (r *Remote) undecodable(e *envelope, codec, typ string, err error) {
	r.counts.undecodable.Add(1)
	r.warn("remote: message not decoded", slog.String("codec", codec), slog.String("type", typ),
		slog.String("target", e.target.Id), slog.Any("err", err))
	if e.sender != nil {
		r.root.Send(e.sender, &actor.DeadLetterResponse{Target: e.target})
	}
}

// deliver hands a message to the actor that it is for. A mailbox or middleware that panics ends
// this message alone.
func (r *Remote) deliver(l *link, e *envelope) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("remote: delivery panicked", slog.String("target", e.target.Id), slog.Any("panic", p))
		}
	}()
	if e.system {
		p, found := r.system.ProcessRegistry.GetLocal(e.target.Id)
		l.mu.Lock()
		messages, ok := l.watches.came(l.name, e.target, e.message)
		l.mu.Unlock()
		if !ok {
			r.counts.malformed.Add(1)
			return
		}
		for _, m := range messages {
			if _, stop := m.(*actor.Stop); stop && found {
				p.Stop(e.target)
			} else {
				p.SendSystemMessage(e.target, m) // if there is none, dead letters answer a Watch
			}
		}
		return
	}
	r.counts.received.Add(1)
	if isFuture(e.target.Id) {
		l.mu.Lock()
		delete(l.asked.waiting, e.target.Id)
		l.mu.Unlock()
	}
	if e.sender == nil && e.header == nil {
		r.root.Send(e.target, e.message)
		return
	}
	env := &actor.MessageEnvelope{Message: e.message, Sender: e.sender}
	for k, v := range e.header {
		env.SetHeader(k, v)
	}
	r.root.Send(e.target, env)
}

// warn logs what peers have done: a few lines a second.
func (r *Remote) warn(text string, args ...any) {
	if r.lines.may(efa.RawAddr{}, linesEvery, r.now()) {
		r.log.Warn(text, args...)
	}
}

// undeliverable logs why a message could not even be queued.
func (r *Remote) undeliverable(target *actor.PID, message any, err error) {
	if errors.Is(err, ErrUnreachable) || errors.Is(err, ErrClosed) {
		return // once for the address is enough
	}
	r.log.Warn("remote: message not sent", slog.String("target", target.Address+"/"+target.Id),
		slog.String("type", fmt.Sprintf("%T", message)), slog.Any("err", err))
}

// dead makes a dead letter of a message, which answers a future.
func (r *Remote) dead(x letter) {
	r.counts.dead.Add(1)
	r.system.DeadLetter.SendUserMessage(x.target, x.message)
}

// welcome takes a WELCOME.
func (r *Remote) welcome(l *link, mine uint64, body []byte) {
	if l == nil || len(body) != frameHead || kind(body[0]) != kindWelcome {
		r.counts.malformed.Add(1)
		return
	}
	if theirs := session(body); theirs != 0 && !l.isUp() {
		r.names.welcomed(l, mine, theirs)
	}
}

package remote

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

// crew are the goroutines that receive frames and send them. One that has nothing to do waits for the next task:
// a new goroutine's stack would have to grow first, which takes longer than to send or to receive.
type crew struct {
	r       *Remote
	tasks   chan *link // a link whose queue is to be sent; nil: to receive
	resting atomic.Int32
}

// mostResting is how many goroutines wait for a task.
const mostResting = 4

// do has a goroutine do a task. It is in served until the task is done.
func (c *crew) do(l *link) {
	select {
	case c.tasks <- l:
	default:
		go c.work(l)
	}
}

func (c *crew) work(l *link) {
	for goesOn := true; goesOn; l, goesOn = c.rest() {
		if l == nil {
			c.r.receive()
		} else {
			l.send()
			c.r.served.Done()
		}
	}
}

// rest waits for a task. It reports false if there are others to do it, or the Remote ends.
func (c *crew) rest() (l *link, ok bool) {
	defer c.resting.Add(-1)
	if c.resting.Add(1) > mostResting {
		return nil, false
	}
	select {
	case l = <-c.tasks:
		return l, true
	case <-c.r.ctx.Done():
		return nil, false
	}
}

// receive takes frames until the endpoint or the Remote ends, or until one begins a lane: then another goroutine
// goes on receiving, and this one handles what is in the lane. So a message is handled where it was received, and
// what comes from one peer never waits for what has come from another.
func (r *Remote) receive() {
	for {
		d, err := r.next()
		var long *efa.TooLongError
		var n *lane
		switch {
		case err == nil:
			n = r.sort(arrival{message: d.Message}, d.Body)
			d.Release()
		case errors.As(err, &long):
			n = r.sort(arrival{message: long.Claimed.Message, long: long.Claimed}, nil)
		case r.ctx.Err() != nil:
			r.served.Done()
			return
		case isOver(err):
			defer r.served.Done()
			if r.names.closing() {
				return
			}
			r.log.Error("remote: nothing is received any more", slog.Any("err", err))
			for _, l := range r.names.all() {
				r.served.Go(func() { l.fail(err) })
			}
			return
		}
		// Other errors are of the one message: its sender has failed.
		if n != nil {
			r.crew.do(nil) // in served, where this one is no more: Close may be called in a lane
			n.run(r)
			return
		}
	}
}

// turns has each session get its turn: every so many frames the first of a few sessions is taken though it
// is not the oldest there is, so that a long queue of others' frames holds nobody up.
type turns struct {
	frames uint64
	due    []*link
	buf    []byte // for a packet
}

const (
	everyFrames = 256
	inATurn     = 8
)

// next takes a frame: the oldest, or that of a session whose turn it is.
func (r *Remote) next() (efa.Delivery, error) {
	t := &r.turns
	if t.frames++; t.frames%everyFrames < inATurn {
		if len(t.due) == 0 {
			t.due = r.names.all()
		}
		if n := len(t.due); n > 0 {
			l := t.due[n-1]
			t.due = t.due[:n-1]
			if d, err := r.first(l); d.Body != nil || errors.As(err, new(*efa.TooLongError)) {
				return d, err
			}
		}
	}
	return r.ep.NextTag(r.ctx, efa.Match{Tag: tagFrames}, efa.OnePacket)
}

// first takes the oldest frame of a session, if there is one.
func (r *Remote) first(l *link) (d efa.Delivery, err error) {
	at, there := l.peer()
	if !there {
		return d, nil
	}
	op, err := r.ep.Start(&efa.PacketReq{From: at, Directed: true, Tagged: true, Tag: tagFrames, Buf: r.turns.buf})
	if err != nil {
		return d, err
	}
	op.Cancel() // unless it has found one
	<-op.Done()
	c, err := op.Wait(r.ctx)
	if err == nil {
		d = efa.Delivery{Message: c.Message, Body: r.turns.buf[:c.N]}
	}
	return d, err
}

// apart takes the frames of another tag, for which there is always a receive: they wait behind no other kind.
func (r *Remote) apart(tag uint64) {
	b := make([]byte, frameHead+maxHello)
	for {
		op, err := r.ep.Start(&efa.PacketReq{Tagged: true, Tag: tag, Buf: b})
		if err != nil {
			if isOver(err) || !r.pause(askAgain) {
				return
			}
			continue
		}
		select {
		case <-op.Done():
		case <-r.ctx.Done():
			op.Cancel()
			<-op.Done()
			return
		}
		c, err := op.Wait(r.ctx)
		var long *efa.TooLongError
		switch {
		case errors.As(err, &long):
			r.counts.malformed.Add(1)
			r.discard(long.Claimed)
		case isOver(err):
			return
		case err != nil:
		case c.N < frameHead || tagOf(b) != tag:
			r.counts.malformed.Add(1)
		default:
			if n := r.sort(arrival{message: c.Message}, b[:c.N]); n != nil {
				go n.run(r) // not in served: Close may be called there
			}
		}
	}
}

// isOver reports whether an error is the end of the endpoint.
func isOver(err error) bool {
	return errors.Is(err, efa.ErrClosed) || errors.Is(err, efa.ErrIO) || errors.Is(err, efa.ErrBadState)
}

// pause waits a while, and reports whether the Remote is still there.
func (r *Remote) pause(d time.Duration) bool {
	timer := clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.ctx.Done():
		return false
	}
}

// sort finds the lane of what has come. It returns the lane if it is to be run.
func (r *Remote) sort(a arrival, b []byte) *lane {
	l, k := r.names.of(a.message.From), kind(0)
	if len(b) >= frameHead {
		k = kind(b[0])
	}
	switch {
	case l != nil && (k == kindCredit || k == kindPing): // whatever was sent before them
		r.frame(l, &a.message, b)
	case l != nil && k != kindHello:
		a.free = k == kindWelcome || k == kindReset || k == kindBye
		return l.lane.put(r, a, b)
	case k == kindHello || k == kindData || k == kindPing: // they are answered
		if r.mayAnswer(&a.message) { // else they come again
			return r.strangers.put(r, a, b)
		}
	default:
		r.arrived(nil, &a, b)
	}
	return nil
}

func (r *Remote) mayAnswer(m *efa.Message) bool { return r.answers.may(m.Raw(), answersEvery, r.now()) }

// lane is what comes from one peer, in its order, and is handled by one goroutine as long as there is something.
// What is not the Remote's own may hold that up: a bounded mailbox that is full, a codec, a subscriber of dead
// letters, a peer that does not send the rest of a long frame.
type lane struct {
	of   *link       // nil: of all peers without a session
	over atomic.Bool // what waits is of no use any more

	mu      sync.Mutex
	running bool
	bytes   int // of what waits
	waiting arrivals
	spare   arrivals // empty, to be used next
}

// arrivals are frames, one after the other.
type arrivals struct {
	list   []arrival
	frames []byte
	free   int // how many count nothing
}

// arrival is a frame, or a message that is to be received before it is one.
type arrival struct {
	message efa.Message
	frame   int // bytes of it
	long    *efa.Claimed
	free    bool // it counts nothing of the window, as its sender has it
}

// maxFree is how many frames wait in a lane that count nothing. What is beyond that is dropped: it comes again, or
// the peer's end is found out otherwise.
const maxFree = 64

// maxOfStrangers is how many bytes of frames of peers without a session wait; they are sent again.
const maxOfStrangers = 1 << 20

// size is what it counts of the window.
func (a *arrival) size() int {
	if a.free {
		return 0
	}
	return a.message.N - frameHead + frameCost
}

// put has an arrival wait for its turn. It returns the lane if nobody runs it.
func (n *lane) put(r *Remote, a arrival, b []byte) *lane {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.over.Load(), n.of == nil && n.bytes >= maxOfStrangers, a.free && n.waiting.free >= maxFree:
		r.discard(a.long)
		return nil
	case a.free:
		n.waiting.free++
	case n.of != nil && n.bytes >= window:
		r.counts.malformed.Add(1)
		n.over.Store(true)
		r.served.Go(func() { n.of.fail(violation("more than %d bytes of messages that were not handled", window)) })
		r.discard(a.long)
		return nil
	}
	a.frame = len(b)
	n.bytes += a.size()
	n.waiting.list, n.waiting.frames = append(n.waiting.list, a), append(n.waiting.frames, b...)
	if n.running {
		return nil
	}
	n.running = true
	return n
}

// run handles what waits until there is nothing more.
func (n *lane) run(r *Remote) {
	for {
		n.mu.Lock()
		if len(n.waiting.list) == 0 {
			n.waiting, n.spare = n.spare, arrivals{}
			n.waiting.shrink(full / 16)
			n.running = false
			n.mu.Unlock()
			return
		}
		now := n.waiting
		n.waiting, n.spare = n.spare, arrivals{}
		n.mu.Unlock()
		b := now.frames
		for i := range now.list {
			a := &now.list[i]
			n.mu.Lock()
			n.bytes -= a.size()
			n.mu.Unlock()
			if !n.over.Load() && r.ctx.Err() == nil {
				r.arrived(n.of, a, b[:a.frame])
			} else {
				r.discard(a.long)
			}
			b = b[a.frame:]
		}
		now.shrink(keepBuf)
		n.mu.Lock()
		n.spare = now
		n.mu.Unlock()
	}
}

// shrink empties arrivals, and keeps no more memory for the next ones than it says.
func (x *arrivals) shrink(most int) {
	clear(x.list)
	x.list, x.frames, x.free = x.list[:0], x.frames[:0], 0
	if cap(x.frames) > most || cap(x.list) > most/frameCost {
		*x = arrivals{}
	}
}

// arrived handles a frame of a link, or of a peer without one.
func (r *Remote) arrived(l *link, a *arrival, b []byte) {
	if a.long == nil {
		r.frame(l, &a.message, b)
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
		r.dropped(l, a)
		return
	}
	buf := longs.Get().(*[]byte)
	if cap(*buf) < n {
		*buf = make([]byte, n)
	}
	if m, err := a.long.Recv(l.ctx, (*buf)[:n]); err == nil {
		r.frame(l, &m, (*buf)[:m.N])
	} else {
		r.dropped(l, a)
	}
	if cap(*buf) <= keepBuf {
		longs.Put(buf)
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

// maxDiscards is how many messages without a session are thrown away at a time. What is beyond that
// stays, and counts as its sender's unexpected messages.
const maxDiscards = 4

// discard throws a message that has no session away, which takes as long as its sender likes; nil is none.
func (r *Remote) discard(c *efa.Claimed) {
	if c == nil {
		return
	}
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
		r.greeters.hello(m, s, body)
	case kindWelcome:
		r.welcome(l, s, body)
	case kindData, kindPing, kindBye, kindCredit:
		switch {
		case l == nil || l.mine != s:
			if (k == kindData || k == kindPing) && (l == nil || r.mayAnswer(m)) {
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
	for len(in.b) > 0 && !l.lane.over.Load() {
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

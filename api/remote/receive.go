package remote

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"runtime"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/api/efa"
)

// receive takes frames until the endpoint or the Remote ends.
func (r *Remote) receive() {
	for {
		d, err := r.ep.NextTag(r.ctx, efa.Match{Tag: tagFrames})
		var long *efa.TooLongError
		switch {
		case err == nil:
			r.frame(&d.Message, d.Body)
			d.Release()
			runtime.Gosched() // the actors that have got something are next, on this processor
		case errors.As(err, &long):
			r.long(long.Claimed)
		case r.ctx.Err() != nil, r.closing():
			return
		case errors.Is(err, efa.ErrClosed), errors.Is(err, efa.ErrIO), errors.Is(err, efa.ErrBadState):
			r.log.Error("remote: nothing is received any more", slog.Any("err", err))
			for _, l := range r.all() {
				l.fail(0, err)
			}
			return
		}
		// Other errors are of the one message: its sender has failed.
	}
}

// long receives a frame that is longer than what the endpoint lends.
func (r *Remote) long(c *efa.Claimed) {
	if n := c.Message.N; n <= r.cfg.MaxMessage+full {
		b := make([]byte, n)
		if m, err := c.Recv(r.ctx, b); err == nil {
			r.frame(&m, b[:m.N])
		}
		return
	}
	r.counts.malformed.Add(1)
	r.served.Go(func() { _ = c.Discard(r.ctx) }) // which takes as long as its sender likes
}

// session is the number in a frame's head.
func session(b []byte) uint64 { return binary.LittleEndian.Uint64(b[1:frameHead]) }

// frame takes a frame.
func (r *Remote) frame(m *efa.Message, b []byte) {
	if len(b) < frameHead {
		r.counts.malformed.Add(1)
		return
	}
	k, s, body := kind(b[0]), session(b), b[frameHead:]
	if k == kindHello {
		r.hello(m, s, body)
		return
	}
	l := r.of(m.From)
	switch k {
	case kindWelcome:
		r.welcome(l, s, body)
	case kindData, kindPing, kindBye:
		switch {
		case l == nil || !l.in(s):
			if m.From != efa.NoAddr && k != kindBye {
				r.reset(m.From, s)
			}
		case k == kindBye:
			l.fail(s, ErrClosed)
		case k == kindData:
			r.data(l, body)
		}
	case kindReset:
		if l != nil {
			l.forgotten(s, errForgotten)
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
			r.log.Warn("remote: frame dropped", slog.String("address", l.name), slog.Any("err", err))
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
	r.log.Warn("remote: message not decoded", slog.String("codec", codec), slog.String("type", typ),
		slog.String("target", e.target.Id), slog.Any("err", err))
	if e.sender != nil {
		r.system.Root.Send(e.sender, &actor.DeadLetterResponse{Target: e.target})
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
		p, ok := r.system.ProcessRegistry.GetLocal(e.target.Id)
		if !l.watch.came(l.name, e.target, e.message) {
			r.counts.malformed.Add(1)
			return
		}
		if _, stop := e.message.(*actor.Stop); stop && ok {
			p.Stop(e.target)
			return
		}
		p.SendSystemMessage(e.target, e.message) // if there is none, dead letters answer a Watch
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

package coll

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/api/efa"
)

// The communication of algorithms with other ranks. b has the same length on both
// sides; zero bytes are a message, too. All calls return when the buffers may be
// used again.

// eagerMost is the number of bytes up to which a message is sent at once, before there is a
// receive for it. Longer ones go by a flow. It is less than the MinRead of every device: a
// send that its receiver reads completes only when there is a receive, and two ranks that
// send to each other would wait for ever.
const eagerMost = 64 << 10

// send sends b to a rank.
func (x *call) send(to, step int, b []byte) error {
	if len(b) > eagerMost || x.tooFar(to, len(b)) {
		return x.exchange(to, b, -1, nil, step)
	}
	return x.eager(to, x.at(step, len(b)), b)
}

// eager sends a message that is short.
func (x *call) eager(to int, tag uint64, b []byte) error {
	if err := x.ep.SendTag(x, x.peers[to], tag, b, x.how(len(b))); err != nil {
		return &peerError{to, err}
	}
	return nil
}

// recv fills b with a rank's message.
func (x *call) recv(from, step int, b []byte) error {
	if len(b) > eagerMost {
		return x.exchange(-1, nil, from, b, step)
	}
	m, err := x.message(from, x.at(step, len(b)), b)
	if err == nil && (m.N != len(b) || m.Tag&tagOffer != 0) {
		err = mismatch(from, len(b), m.N)
	}
	return err
}

// message receives one message, and checks that its sender means what we do.
func (x *call) message(from int, tag uint64, b []byte) (efa.Message, error) {
	m, err := x.ep.RecvTag(x, efa.Match{Tag: tag, Ignore: tagIgnore}, b, efa.From(x.peers[from]))
	if err != nil || (m.Tag^tag)&tagAgree != 0 {
		return m, x.unfit(from, err)
	}
	x.heard(from)
	return m, nil
}

// unfit is the error of a receive that failed, or of one that did not and took what
// was not meant.
func (x *call) unfit(from int, err error) error {
	switch {
	case err == nil:
		err = fmt.Errorf("%w: it called another collective than %v, or with other arguments or counts", ErrMismatch, x.kind)
	case errors.Is(err, efa.ErrTruncated):
		err = fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	return &peerError{from, err}
}

func mismatch(rank, want, got int) error {
	return &peerError{rank, fmt.Errorf("%w: %d bytes instead of %d", ErrMismatch, got, want)}
}

// exchange sends sb to one rank and fills rb with another's message. A negative
// rank means none.
func (x *call) exchange(to int, sb []byte, from int, rb []byte, step int) error {
	return x.exchangeCombine(to, sb, from, rb, nil, false, step)
}

// combine receives as many bytes as acc has, and combines them with src, or with
// acc if src is nil, into acc. lower: the message is of lower ranks.
func (x *call) combine(from int, acc, src []byte, lower bool, step int) error {
	if src == nil {
		src = acc
	}
	return x.exchangeCombine(-1, nil, from, acc, src, lower, step)
}

// direct reports whether a message may be received into acc, before it is combined
// with src: then nothing has to be copied.
func (x *call) direct(acc, src []byte, lower bool) bool {
	return src != nil && !(x.set.ordered && lower) && !overlap(acc, src)
}

// merge leaves in acc what came and src make, in the order of their ranks. It may
// change what came; that may be acc, if it is direct.
func (x *call) merge(came, acc, src []byte, lower bool) {
	switch {
	case same(came, acc):
		x.op.combine(src, acc)
		return
	case x.set.ordered && !lower:
		x.op.combine(src, came)
		copy(acc, came)
		return
	}
	move(acc, src)
	x.op.combine(came, acc)
}

// exchangeCombine is combine, and sends sb meanwhile, which may be acc. Without src it
// is exchange. All steps for short messages are in one function, since on the path of
// a short collective each further call is measurable.
func (x *call) exchangeCombine(to int, sb []byte, from int, rb, src []byte, lower bool, step int) error {
	if x.span != nil {
		x.round(to, len(sb), from, len(rb), step)
	}
	if len(sb) > eagerMost || len(rb) > eagerMost || to >= 0 && to != from && x.tooFar(to, len(sb)) {
		return x.exchangeLong(to, sb, from, rb, src, lower, step)
	}
	if to >= 0 {
		if err := x.ep.SendTag(x, x.peers[to], x.at(step, len(sb)), sb, x.how(len(sb))); err != nil {
			return &peerError{to, err}
		}
	}
	if from < 0 {
		return nil
	}
	into, direct := rb, src == nil || x.direct(rb, src, lower)
	if !direct {
		into = x.temps.get(len(rb))
	}
	tag := x.at(step, len(rb))
	m, err := x.ep.RecvTag(x, efa.Match{Tag: tag, Ignore: tagIgnore}, into, efa.From(x.peers[from]))
	switch {
	case err != nil || (m.Tag^tag)&tagAgree != 0:
		return x.unfit(from, err)
	case m.N != len(into) || m.Tag&tagOffer != 0:
		return mismatch(from, len(into), m.N)
	}
	x.heard(from)
	switch {
	case src == nil:
		return nil
	case direct:
		x.op.combine(src, rb)
		return nil
	}
	x.merge(into, rb, src, lower)
	x.temps.put(into)
	return nil
}

// exchangeLong is exchangeCombine of messages that do not go at once.
func (x *call) exchangeLong(to int, sb []byte, from int, rb, src []byte, lower bool, step int) error {
	if src == nil || !overlap(sb, rb) {
		return x.flow(to, sb, from, rb, src, lower, step)
	}
	// Data in flight must not change.
	tmp := x.temps.get(len(rb))
	if err := x.flow(to, sb, from, tmp, nil, false, step); err != nil {
		return err
	}
	x.merge(tmp, rb, src, lower)
	x.temps.put(tmp)
	return nil
}

// parentSpan is the span that operations of the collective are part of.
func (x *call) parentSpan() trace.SpanContext {
	if x.span == nil {
		return trace.SpanContext{}
	}
	return x.span.SpanContext()
}

package coll

import (
	"cmp"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/api/efa"
)

// The communication of algorithms with other ranks. b has the same length on both
// sides; zero bytes are a message, too. All calls return when the buffers may be
// used again.

// eagerMost is the number of bytes up to which a message is one frame. It is sent at once,
// before there is a receive for it, if it has no more bytes than family.sure, and else
// goes by a flow, as all longer ones do. The receiver does not know which: it takes
// an offer in place of the message.
const eagerMost = 64 << 10

// sureOf returns the number of bytes up to which a send of an endpoint is over without the
// receiver's doing anything: up to MaxInject it copies the message, above the switch points
// it waits for CTS or EOR, which come when there is a receive. Two ranks that sent more to
// each other before they receive would wait for ever.
func sureOf(ep *efa.Endpoint, limits *efa.Limits) int {
	p := ep.Config().Protocol
	sure := min(cmp.Or(p.MaxMedium, limits.MaxMedium), eagerMost)
	if least := cmp.Or(p.MinRead, limits.MinRead); least > 0 && limits.RDMARead && !p.NoRDMARead {
		sure = min(sure, least-1)
	}
	return max(sure, limits.MaxInject)
}

// send sends b to a rank.
func (x *call) send(to, step int, b []byte) error {
	if len(b) > x.sure || x.tooFar(to, len(b)) {
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
	if x.long(len(b)) {
		return x.exchange(-1, nil, from, b, step)
	}
	tag := x.at(step, len(b))
	m, err := x.message(from, tag, b)
	if err != nil {
		return err
	}
	return x.whole(from, tag, &m, b)
}

// long reports whether a message of n bytes comes by a flow, or may come as an offer that
// is longer.
func (f *family) long(n int) bool { return n > eagerMost || n > f.limits.MaxInject && n < offerMost }

// whole makes sure that the message that came into b is all of what has to come, and takes
// it up if it is an offer.
func (x *call) whole(from int, tag uint64, m *efa.Message, b []byte) error {
	switch {
	case m.Tag&tagOffer == 0 && m.N == len(b):
		return nil
	case m.Tag&tagOffer == 0 || len(b) <= x.limits.MaxInject:
		return mismatch(from, len(b), m.N)
	}
	in := inflow{x: x, from: from, tag: tag, left: len(b)}
	err := in.offered(b[:m.N])
	for err == nil && !in.over {
		_, err = in.next(b[len(b)-in.left:])
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
	if len(sb) > x.sure || x.long(len(rb)) || to >= 0 && to != from && x.tooFar(to, len(sb)) {
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
		if err := x.whole(from, tag, &m, into); err != nil {
			return err
		}
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

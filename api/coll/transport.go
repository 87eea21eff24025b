package coll

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/api/efa"
)

// The tag of a message says all that it is about:
//
//	 63  62      52 51          28 27   26         13 12     11            0
//	+---+----------+--------------+-----+------------+-------+--------------+
//	| 1 | context  | sequence     | ack | step       | offer | signature    |
//	+---+----------+--------------+-----+------------+-------+--------------+
//
// context is the group, sequence the collective among those called on it; ack
// answers an offer (see flow). Receives take any message with these: those of one
// rank arrive in the order in which they were sent, which is that in which they are
// wanted. step, the message among those of the collective, and signature, a hash of
// the sender's collective, are compared when it has arrived, so that calls that do
// not fit together fail instead of waiting for each other. offer says that the
// message is not the data but where to read it.
const (
	tagOurs      = 1 << 63
	contextShift = 52
	seqShift     = 28
	seqMask      = 1<<24 - 1
	tagAck       = 1 << 27
	stepShift    = 13
	stepMask     = 1<<14 - 1
	tagOffer     = 1 << 12
	signMask     = 1<<12 - 1
	tagAgree     = stepMask<<stepShift | signMask
	tagIgnore    = tagOffer | tagAgree

	maxContexts = 1 << 11
	rootContext = 0

	// seqRevoke is the sequence of no collective, but of revocations.
	seqRevoke = seqMask
)

// tagOf is the tag of a group's collective, without a step.
func tagOf(id, seq uint64) uint64 {
	return tagOurs | id<<contextShift | seq%seqRevoke<<seqShift
}

// revokeTag is the tag of a group's revocations.
func revokeTag(id uint64) uint64 { return tagOurs | id<<contextShift | seqRevoke<<seqShift }

// spread is odd, and spreads bits to the upper ones.
const spread = 0x9e3779b97f4a7c15

// sign makes the signature of the values about which all ranks must agree.
func sign(k kind, algorithm, root, bytes int) uint64 {
	h := uint64(k)<<16 | uint64(algorithm)<<8
	h = (h + uint64(root)) * spread
	h = (h ^ h>>29 ^ uint64(bytes)) * spread
	return h >> 52
}

// at is the tag of a step. Steps beyond the field begin anew.
//
// n is how long what is sent is, which both sides must agree about, too: where ranks have
// counts of their own the signature of the collective does not say it.
func (x *call) at(step, n int) uint64 {
	return (x.tag | uint64(step)&stepMask<<stepShift) ^ uint64(n)*spread>>52
}

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

// long reports whether a message of n bytes comes by a flow, or may come as an offer that
// is longer.
func (f *family) long(n int) bool { return n > eagerMost || n > f.limits.MaxInject && n < offerMost }

// send sends b to a rank.
func (x *call) send(to, step int, b []byte) error {
	if len(b) > x.family.sure || x.tooFar(to, len(b)) {
		return x.exchange(to, b, -1, nil, step)
	}
	return x.eager(to, x.at(step, len(b)), b)
}

// recv fills b with a rank's message.
func (x *call) recv(from, step int, b []byte) error {
	if x.family.long(len(b)) {
		return x.exchange(-1, nil, from, b, step)
	}
	tag := x.at(step, len(b))
	m, err := x.message(from, tag, b)
	if err != nil {
		return err
	}
	return x.whole(from, tag, &m, b)
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

// exchangeCombine is combine, and sends sb meanwhile, which may be acc. Without src it
// is exchange. All steps for short messages are in one function, since on the path of
// a short collective each further call is measurable.
func (x *call) exchangeCombine(to int, sb []byte, from int, rb, src []byte, lower bool, step int) error {
	if x.span != nil {
		x.round(to, len(sb), from, len(rb), step)
	}
	if len(sb) > x.family.sure || x.family.long(len(rb)) || to >= 0 && to != from && x.tooFar(to, len(sb)) {
		return x.exchangeLong(to, sb, from, rb, src, lower, step)
	}
	if to >= 0 {
		if err := x.family.ep.SendTag(x.both.Context, x.peers[to], x.at(step, len(sb)), sb, x.family.how(len(sb))); err != nil {
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
	m, err := x.family.ep.RecvTag(x.both.Context, efa.Match{Tag: tag, Ignore: tagIgnore}, into, efa.From(x.peers[from]))
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

// eager sends a message that is short.
func (x *call) eager(to int, tag uint64, b []byte) error {
	if err := x.family.ep.SendTag(x.both.Context, x.peers[to], tag, b, x.family.how(len(b))); err != nil {
		return &peerError{to, err}
	}
	return nil
}

// whole makes sure that the message that came into b is all of what has to come, and takes
// it up if it is an offer.
func (x *call) whole(from int, tag uint64, m *efa.Message, b []byte) error {
	switch {
	case m.Tag&tagOffer == 0 && m.N == len(b):
		return nil
	case m.Tag&tagOffer == 0 || len(b) <= x.family.limits.MaxInject:
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
	m, err := x.family.ep.RecvTag(x.both.Context, efa.Match{Tag: tag, Ignore: tagIgnore}, b, efa.From(x.peers[from]))
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

// A long message is a flow of frames. Its sender chooses what a frame is:
//
//   - lent: the whole message, in memory of Alloc. The frame is an offer that says
//     where it is; the receiver reads it from there, piece by piece as it needs it,
//     and answers with an ack.
//   - staged: a segment, copied to memory of Alloc of this package's, as long as it
//     is in cache. Offers and acks as before.
//   - plain: a segment sent as a message, if the device cannot read memory of peers.
//     Such messages keep places of the endpoint until they are received, so before the
//     first one the receiver is asked whether it is there, by an offer of nothing which it
//     acks, if there are many already (mostPaced).
//
// The receiver takes all three, as they come.

// window is how many frames are under way.
const window = 4

// errLeft is the error of a flow that ends since the caller's operator does not return.
var errLeft = errors.New("coll: the operator has not returned")

// flow does both directions of an exchange with long messages. Its frames are settled in any
// case, or a group would end with memory and places that are in use.
func (x *call) flow(to int, sb []byte, from int, rb, src []byte, lower bool, step int) (err error) {
	out := outflow{x: x, to: to, tag: x.at(step, len(sb)), b: sb, over: to < 0}
	in := inflow{x: x, from: from, tag: x.at(step, len(rb)), left: len(rb), over: from < 0}
	var tmp []byte
	if src != nil && !x.direct(rb, src, lower) {
		tmp = x.temps.get(min(x.segment(), len(rb)))
	}
	if to >= 0 {
		err = errLeft
		defer func() { err = out.settle(err) }()
	}
	err = x.frames(&out, &in, rb, src, tmp, lower)
	if tmp != nil {
		x.temps.put(tmp)
	}
	return err
}

// frames has the frames of a flow go and come. What comes is combined by way of tmp, or in rb
// if that is nil.
func (x *call) frames(out *outflow, in *inflow, rb, src, tmp []byte, lower bool) (err error) {
	for err == nil && !(out.over && in.over) {
		// Our frame goes out before the next one comes in: if all wait for a place
		// in their windows first, one of them is behind all others and can go on.
		if !out.over {
			if err = out.next(); err != nil {
				break
			}
		}
		switch at := len(rb) - in.left; {
		case in.over:
		case src == nil:
			_, err = in.next(rb[at:min(at+x.segment(), len(rb))])
		default:
			into := tmp
			if tmp == nil {
				into = rb[at:]
			}
			var n int
			n, err = in.next(into[:min(in.left, x.segment())])
			if err == nil && n%x.lay.elem != 0 {
				err = mismatch(in.from, in.left, n)
			}
			if err == nil && n > 0 {
				x.merge(into[:n], rb[at:at+n], src[at:at+n], lower)
			}
		}
	}
	return err
}

// segment is the bytes of a frame that is not lent: whole elements.
func (x *call) segment() int {
	n := x.set.segment
	if n == 0 {
		n = defaultSegment
	}
	n = max(n, eagerMost)
	return max(n-n%x.lay.elem, x.lay.elem)
}

// defaultSegment is so that two of them, one that comes and one that it is combined
// with, are in a processor's own cache.
const defaultSegment = 256 << 10

// offerMost is the most bytes of a frame to be read, an efa.Remote.
const offerMost = efa.MaxRemote

// outflow is a long message that is being sent.
type outflow struct {
	x     *call
	to    int
	tag   uint64
	b     []byte // what is left to be given out
	over  bool   // nothing is
	began bool
	ops   [window]*efa.Op // plain
	stage *stage          // staged
	acks  bool            // lent or staged
	sent  int             // frames
	acked int             // of those, the ones done with; of plain ones, those waited for

	delivered [window]bool // of ops, those that are over when they were received
	places    int64        // taken of mostPaced
	asked     bool         // the receiver has yet to answer
}

// next gives out a frame, when there is a place for it in the window.
func (o *outflow) next() error {
	if !o.began {
		o.began = true
		if len(o.b) <= o.x.family.sure {
			o.over = true
			if o.x.tooFar(o.to, len(o.b)) {
				return o.paced()
			}
			return o.x.eager(o.to, o.tag, o.b)
		}
		if done, err := o.lend(); done || err != nil {
			return err
		}
		if len(o.b) <= eagerMost {
			o.stage = o.x.family.memory.stage(stageSize{eagerMost, 1})
		} else {
			o.stage = o.x.family.memory.stage(stageSize{o.x.segment(), window})
		}
		if o.acks = o.stage != nil; !o.acks && !o.reserve(window) {
			o.asked = true
			return o.x.eager(o.to, o.tag|tagOffer, nil)
		}
	}
	if o.asked {
		if _, err := o.x.message(o.to, o.tag|tagAck, nil); err != nil {
			return err
		}
		o.asked = false
	}
	if o.sent-o.acked == window {
		if err := o.await(); err != nil {
			return err
		}
	}
	seg := o.b[:min(o.x.segment(), len(o.b))]
	if err := o.give(seg); err != nil {
		return err
	}
	o.sent++
	o.b = o.b[len(seg):]
	o.over = len(o.b) == 0
	return nil
}

// lend offers all at once if it lies in memory of Alloc.
func (o *outflow) lend() (bool, error) {
	at, ok := o.x.family.memory.find(o.b)
	if !ok || !o.x.family.limits.RDMARead {
		return false, nil
	}
	o.sent, o.over, o.acks = 1, true, true
	return true, o.offer(at)
}

func (o *outflow) offer(at efa.Remote) error {
	var b [offerMost]byte
	p, err := at.AppendBinary(b[:0])
	if err != nil {
		return err
	}
	return o.x.eager(o.to, o.tag|tagOffer, p)
}

// give gives out a segment.
func (o *outflow) give(seg []byte) error {
	place := o.sent % window
	if o.stage != nil {
		return o.offer(o.stage.put(place, seg))
	}
	level := efa.Transmitted
	far := len(seg) <= eagerMost && o.x.tooFar(o.to, len(seg)) // a longer one waits for its receiver anyway
	if far {
		level = efa.Delivered
	}
	for {
		op, err := o.x.family.ep.Start(&efa.SendReq{
			To: o.x.peers[o.to], Buf: seg, Tagged: true, Tag: o.tag, Level: level, Parent: o.x.parentSpan(),
		})
		switch {
		case err == nil:
			o.ops[place], o.delivered[place] = op, far
			return nil
		case !errors.Is(err, efa.ErrAgain):
			return &peerError{o.to, err}
		case o.acked == o.sent: // others have all the places
			o.acked++
			return o.x.eager(o.to, o.tag, seg)
		}
		if err := o.await(); err != nil {
			return err
		}
	}
}

// await waits for the oldest frame that is under way.
func (o *outflow) await() error {
	if o.acks {
		if _, err := o.x.message(o.to, o.tag|tagAck, nil); err != nil {
			return err
		}
	} else {
		if _, err := o.ops[o.acked%window].Wait(o.x.both.Context); err != nil {
			return &peerError{o.to, err}
		}
		o.ops[o.acked%window] = nil
		if o.delivered[o.acked%window] {
			o.x.heard(o.to)
		}
	}
	o.acked++
	return nil
}

// settle waits for all frames; after an error it makes sure that none of the call's
// memory is in use any more.
func (o *outflow) settle(err error) error {
	for err == nil && o.acked < o.sent {
		err = o.await()
	}
	o.x.family.pacing.Add(-o.places)
	if o.stage != nil {
		// The peer may yet read the offered segment: the memory is not reused.
		o.x.family.memory.unstage(o.stage, err == nil)
		return err
	}
	for _, op := range o.ops {
		if op != nil && err != nil {
			op.Cancel()
			_, _ = op.Wait(context.Background())
		}
	}
	return err
}

// inflow is a long message that is being received.
type inflow struct {
	x    *call
	from int
	tag  uint64
	left int // bytes to come
	over bool
	// An offer that was not read to its end.
	at    efa.Remote
	short []byte // for an offer of less than its own length
}

// next receives into buf, all of it or the rest of a frame, and returns the number
// of bytes.
func (i *inflow) next(buf []byte) (int, error) {
	if i.at.Len() == 0 {
		into := buf
		if len(buf) < offerMost {
			if i.short == nil {
				i.short = make([]byte, offerMost)
			}
			into = i.short
		}
		m, err := i.x.message(i.from, i.tag, into)
		switch {
		case err != nil:
			return 0, err
		case m.Tag&tagOffer == 0 && m.N <= len(buf) && (m.N == i.left || m.N > 0 && i.left > eagerMost):
			return copy(buf, into[:m.N]), i.took(m.N)
		case m.Tag&tagOffer == 0:
			return 0, mismatch(i.from, i.left, m.N)
		}
		if err := i.offered(into[:m.N]); err != nil {
			return 0, err
		}
	}
	return i.take(buf)
}

// offered notes what an offer says. One of nothing asks whether we are here.
func (i *inflow) offered(offer []byte) error {
	if len(offer) == 0 {
		return i.x.eager(i.from, i.tag|tagAck, nil)
	}
	if err := i.at.UnmarshalBinary(offer); err != nil {
		return &peerError{i.from, fmt.Errorf("%w: %w", ErrMismatch, err)}
	}
	if n := i.at.Len(); n == 0 || n > uint64(i.left) || n < uint64(i.left) && i.left <= eagerMost {
		return mismatch(i.from, i.left, int(n))
	}
	return nil
}

// take reads into buf what was offered, if anything, and says so when that was all of it.
func (i *inflow) take(buf []byte) (int, error) {
	if i.at.Len() == 0 {
		return 0, nil
	}
	n := int(min(uint64(len(buf)), i.at.Len()))
	if err := i.x.family.ep.Memory(i.x.peers[i.from], i.at).Read(i.x.both.Context, buf[:n]); err != nil {
		return 0, &peerError{i.from, err}
	}
	i.at = i.at.Slice(uint64(n), i.at.Len()-uint64(n))
	if i.at.Len() == 0 {
		if err := i.x.eager(i.from, i.tag|tagAck, nil); err != nil {
			return 0, err
		}
	}
	return n, i.took(n)
}

// took counts received bytes.
func (i *inflow) took(n int) error {
	if n > i.left {
		return mismatch(i.from, i.left, n)
	}
	i.left -= n
	i.over = i.left == 0
	return nil
}

// A rank that only sends, such as the root of one Bcast after the other, is not held up:
// messages that are sent at once are kept at the receiver until they are matched. So
// that it does not run ahead of a slow rank until that one's memory is full (PeerMemory
// of efa.ProtocolConfig, for all groups together), each rank of a group counts the bytes
// it has sent to each other one, and the message that exceeds the limit completes only
// when it has been received, as all before it have then.
const (
	aheadMost = 4 << 20
	aheadEach = 2 << 10 // that a message costs besides its bytes
	// mostPaced is how many messages at most wait so, or as frames of a flow for a receiver
	// that need not be there: each keeps one of the endpoint's places for operations, which
	// others need, too. Blocking collectives need one.
	mostPaced = 8
)

// tooFar counts n bytes that are to go to a rank at once, and reports whether these are
// too many. Those of Close are not: their receiver may end its endpoint.
func (x *call) tooFar(to, n int) bool {
	return x.group.ahead[to].Add(int64(n)+aheadEach) > aheadMost && x.kind != kindClose
}

// heard notes that a rank has sent something, or has received what was paced: it has
// received all that was sent to it in earlier collectives. In later ones, where this is
// not the last that was begun, it need not have.
func (x *call) heard(from int) {
	a := &x.group.ahead[from]
	if n := a.Load(); n != 0 && x.tag>>seqShift&seqMask == (x.group.seq.Load()-1)%seqRevoke {
		a.CompareAndSwap(n, 0)
	}
}

// paced gives out a short message that is over when it has been received. Our own
// receives go on meanwhile, or two might wait for each other.
func (o *outflow) paced() error {
	x := o.x
	if !o.reserve(1) { // the next one then
		return x.eager(o.to, o.tag, o.b)
	}
	op, err := x.family.ep.Start(&efa.SendReq{
		To: x.peers[o.to], Buf: o.b, Tagged: true, Tag: o.tag, Level: efa.Delivered, Parent: x.parentSpan(),
	})
	if err == nil {
		o.ops[0], o.delivered[0], o.sent = op, true, 1
		return nil
	}
	if errors.Is(err, efa.ErrAgain) {
		return x.eager(o.to, o.tag, o.b)
	}
	return &peerError{o.to, err}
}

// reserve takes n of mostPaced until the flow is over; false: there are no more.
func (o *outflow) reserve(n int64) bool {
	if o.x.family.pacing.Add(n) > mostPaced {
		o.x.family.pacing.Add(-n)
		return false
	}
	o.places = n
	return true
}

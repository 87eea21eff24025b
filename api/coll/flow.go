package coll

import (
	"context"
	"errors"
	"fmt"

	"github.com/efactor/efactor/api/efa"
)

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
//     acks, if there are many already (pace.go).
//
// The receiver takes all three, as they come.

// window is how many frames are under way.
const window = 4

// flow does both directions of an exchange with long messages.
func (x *call) flow(to int, sb []byte, from int, rb, src []byte, lower bool, step int) (err error) {
	out := outflow{x: x, to: to, tag: x.at(step, len(sb)), b: sb, over: to < 0}
	in := inflow{x: x, from: from, tag: x.at(step, len(rb)), left: len(rb), over: from < 0}
	var tmp []byte
	direct := x.direct(rb, src, lower)
	if src != nil && !direct {
		tmp = x.temps.get(min(x.segment(), len(rb)))
	}
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
			if direct {
				into = rb[at:]
			}
			var n int
			n, err = in.next(into[:min(in.left, x.segment())])
			if err == nil && n%x.lay.elem != 0 {
				err = mismatch(from, in.left, n)
			}
			if err == nil && n > 0 {
				x.merge(into[:n], rb[at:at+n], src[at:at+n], lower)
			}
		}
	}
	if tmp != nil {
		x.temps.put(tmp)
	}
	if to >= 0 {
		err = out.settle(err)
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
		if len(o.b) <= o.x.sure {
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
			o.stage = o.x.memory.stage(stageSize{eagerMost, 1})
		} else {
			o.stage = o.x.memory.stage(stageSize{o.x.segment(), window})
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
	at, ok := o.x.memory.find(o.b)
	if !ok || !o.x.limits.RDMARead {
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
		op, err := o.x.ep.Start(&efa.SendReq{
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
		if _, err := o.ops[o.acked%window].Wait(o.x); err != nil {
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
	o.x.pacing.Add(-o.places)
	if o.stage != nil {
		// The peer may yet read the offered segment: the memory is not reused.
		o.x.memory.unstage(o.stage, err == nil)
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
	if err := i.x.ep.Memory(i.x.peers[i.from], i.at).Read(i.x, buf[:n]); err != nil {
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

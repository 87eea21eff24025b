package coll

import (
	"context"

	"github.com/efactor/efactor/api/efa"
)

// An Allreduce of a few bytes takes no longer than its messages are under way, a
// microsecond or less: there each function more that is called is felt, since much else
// runs between two calls and what it takes is no longer at hand. Therefore begin, work,
// allreduceDoubling and exchangeCombine are here once more, in one piece, for the case
// that is met again and again.

// brief tells whether the short way can do what was chosen.
func (x *call) brief() bool {
	return x.kind == kindAllreduce && x.alg.index == 0 && len(x.peers) > 1 && powerOfTwo(len(x.peers), false) &&
		x.bytes <= min(x.limits.MaxInject, eagerMost) && !x.set.ordered && x.cfg.Tracer == nil
}

// runShort is run, by the short way if the call can be done as the one before it was.
func (x *call) runShort(ctx context.Context) error {
	if !x.short || x.chosen != (choice{x.kind, x.root, x.bytes}) || x.err != nil || x.closed.Load() ||
		x.claim.Load() != nil || overlap(x.in, x.out) || ctx.Err() != nil {
		return x.run(ctx)
	}
	x.tag = tagOf(x.id, x.seq.Add(1)-1) | x.sign
	x.parent = ctx
	src, into := x.in, x.out
	for mask, step := 1, 1; mask < len(x.peers); mask, step = 2*mask, step+1 {
		rank := x.rank ^ mask
		peer, tag := x.peers[rank], x.at(step, len(src))
		if err := x.inject.SendTag(x, peer, tag, src); err != nil {
			return x.over(&peerError{rank, err})
		}
		if step == 2 { // src is out
			into = x.temps.get(len(src))
		}
		m, err := x.ep.RecvTag(x, efa.Match{Tag: tag, Ignore: tagIgnore}, into, efa.From(peer))
		switch {
		case err != nil || (m.Tag^tag)&tagAgree != 0:
			return x.over(x.unfit(rank, err))
		case m.N != len(into) || m.Tag&tagOffer != 0:
			return x.over(mismatch(rank, len(into), m.N))
		case step == 1:
			x.op.combine(src, into)
			src = x.out
		default:
			x.op.combine(into, src)
		}
	}
	if x.both != nil || x.claim.Load() != nil {
		return x.over(nil)
	}
	x.free()
	return nil
}

// over ends a call that took the short way.
func (x *call) over(err error) error {
	err = x.end(err)
	x.free()
	return err
}

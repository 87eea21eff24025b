package endpoint

import (
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
)

// claim is an unexpected message that was taken out of matching, for one receive
// to come.
type claim struct {
	rxe  *ope.Rxe
	use  uint32 // its id, lest it is another message's by now
	link *peer.Link
}

// lost is why the rest of the message will not come.
func (c *claim) lost() error {
	if c.link.Err != nil {
		return c.link.Err
	}
	return peer.ErrAborted
}

// onPeek finds the oldest message that a receive would take now, and describes
// it; a claim takes it out of matching too (FI_PEEK, FI_CLAIM).
func (e *Endpoint) onPeek(r *ope.Request) {
	if e.state != open {
		e.reject(r, e.endError())
		return
	}
	m := e.table.Find(match.KindOf(r.Flags&ope.Tagged != 0), r.Tag, r.Ignore, match.Source(r.Peer))
	res := &e.peeked
	if m == nil {
		*res = ope.Result{Err: errno.ErrNoMessage, Peer: r.Peer}
		r.Sink.Done(r, res)
		return
	}
	x := e.pools.Rxe(m.Owner)
	x.Describe(res)
	if r.Kind == ope.KindClaim {
		e.table.RemoveMsg(m)
		if e.claims == nil {
			e.claims = make(map[uint64]claim)
		}
		e.claims[r.ID] = claim{x, x.Claim(), x.Link()}
	}
	r.Sink.Done(r, res)
}

// onTake receives, or throws away, the message that the claim r.Data took.
func (e *Endpoint) onTake(r *ope.Request) {
	c, ok := e.claims[r.Data]
	if !ok {
		e.reject(r, errno.ErrInvalid)
		return
	}
	delete(e.claims, r.Data)
	switch {
	case e.state != open:
		e.reject(r, e.endError())
	case !c.rxe.Is(c.use):
		e.reject(r, c.lost()) // with a part of the message yet to come
	default:
		o := e.pools.Orders.Get(r, e.cfg.Shard.Now())
		o.Follow(e.env.Trail, c.link)
		e.cfg.Shard.Tell(c.rxe.Ref(), c.rxe.Match(o))
	}
}

package endpoint

import (
	"slices"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
)

// claims answers requests that look for an unexpected message (FI_PEEK, FI_CLAIM). It owns
// the messages that were claimed: taken out of matching, each for one receive to come.
// Endpoint.handle calls it.
type claims struct {
	env     *peer.Env
	pools   *ope.Pools
	table   *match.Table // from the endpoint's start
	closing *closing
	reject  func(*ope.Request, error)
	waits   peekWaits

	byID   map[uint64]claim // by the id of the request that claimed
	result ope.Result       // scratch, which a Sink must not keep
}

// claim is a claimed message. Its rxe may fail, and then serve another message.
type claim struct {
	rxe  *ope.Rxe
	use  uint32 // tells the message from later ones of the rxe
	link *peer.Link
}

// lost returns the reason why the rest of the message will not come.
func (c *claim) lost() error {
	if c.link.Err != nil {
		return c.link.Err
	}
	return peer.ErrAborted
}

// find looks for the oldest message that a receive would take now, and describes it in the
// outcome of r. If r is a claim, the message is taken out of matching.
func (c *claims) find(r *ope.Request) {
	if c.closing.state != open {
		c.reject(r, c.closing.err())
		return
	}
	from, err := c.waits.source(r)
	if err != nil {
		c.reject(r, err)
		return
	}
	m := c.look(r)
	switch {
	case m != nil:
		c.found(r, m)
	case r.Flags&ope.Await != 0:
		c.waits.add(c, r, from)
	default:
		c.result = ope.Result{Err: errno.ErrNoMessage, Peer: r.Peer}
		r.Sink.Done(r, &c.result)
	}
}

// look returns the message that r is about, nil if there is none.
func (c *claims) look(r *ope.Request) *match.Msg {
	return c.table.Find(match.KindOf(r.Flags&ope.Tagged != 0), r.Tag, r.Ignore, match.Source(r.Peer))
}

// found ends r, which has found m. If r is to throw the message away, r goes on as the
// receive of that.
func (c *claims) found(r *ope.Request, m *match.Msg) {
	x := c.pools.Rxe(m.Owner)
	switch {
	case r.Flags&ope.Discard != 0:
		c.table.RemoveMsg(m)
		o := c.pools.Entries.Get(r, c.env.Sh.Now())
		o.Req.Kind, o.Req.Flags = ope.KindTake, r.Flags&^ope.Await
		o.Follow(c.env.Trail, x.Link())
		x.Match(o)
		return
	case r.Kind == ope.KindClaim:
		c.table.RemoveMsg(m)
		c.keep(r.ID, x)
	}
	x.Describe(&c.result)
	r.Sink.Done(r, &c.result)
}

// keep makes x's message, which is not in the matcher any more, the claim id.
func (c *claims) keep(id uint64, x *ope.Rxe) {
	if c.byID == nil {
		c.byID = make(map[uint64]claim)
	}
	c.byID[id] = claim{x, x.Claim(), x.Link()}
}

// receive receives, or throws away, the message that the request r.Data claimed.
func (c *claims) receive(r *ope.Request) {
	x, ok := c.byID[r.Data]
	if !ok {
		c.reject(r, errno.ErrInvalid)
		return
	}
	delete(c.byID, r.Data)
	switch {
	case c.closing.state != open:
		c.reject(r, c.closing.err())
	case !x.rxe.Is(x.use): // it failed with a part of the message yet to come
		c.reject(r, x.lost())
	default:
		o := c.pools.Entries.Get(r, c.env.Sh.Now())
		o.Follow(c.env.Trail, x.link)
		x.rxe.Match(o)
	}
}

// peekWaits is the requests that look for a message and wait until there is one
// (ope.Await), oldest first. It belongs to claims. A message that no receive has matched is
// offered to them before it waits for a receive.
type peekWaits struct {
	list  []*ope.Entry
	peers *peers
}

// add makes r wait, unless it names a peer that has failed.
func (a *peekWaits) add(c *claims, r *ope.Request, from *peer.Link) {
	if from != nil && from.Err != nil {
		c.reject(r, from.Err)
		return
	}
	o := c.pools.Entries.Get(r, c.env.Sh.Now())
	if from != nil {
		o.Await(from)
	}
	a.list = append(a.list, o)
}

// source returns the peer that r names, nil if it names none. Its unexpected messages can
// be found by the handle from then on.
func (a *peekWaits) source(r *ope.Request) (*peer.Link, error) {
	if r.Flags&ope.Await == 0 || r.Peer >= uint64(match.NotAvail) {
		return nil, nil
	}
	return a.peers.link(r.Peer)
}

// offer looks whether those that wait find something now.
func (a *peekWaits) offer(c *claims) {
	for i := 0; i < len(a.list); {
		o := a.list[i]
		m := c.look(&o.Req)
		if m == nil {
			i++
			continue
		}
		a.list = slices.Delete(a.list, i, i+1)
		c.found(&o.Req, m)
		c.pools.Entries.Put(o)
	}
}

// fail ends those that keep does not want.
func (a *peekWaits) fail(c *claims, keep func(*ope.Entry) bool, err error) {
	var doomed []*ope.Entry
	a.list = slices.DeleteFunc(a.list, func(o *ope.Entry) bool {
		if !keep(o) {
			doomed = append(doomed, o)
			return true
		}
		return false
	})
	for _, o := range doomed {
		c.reject(&o.Req, err)
		c.pools.Entries.Put(o)
	}
}

// cancel ends the one with an id, if it is there.
func (a *peekWaits) cancel(c *claims, id uint64) {
	if len(a.list) > 0 {
		a.fail(c, func(o *ope.Entry) bool { return o.Req.ID != id }, errno.ErrCanceled)
	}
}

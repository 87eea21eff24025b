package endpoint

import (
	"slices"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
)

// awaited is the requests that look for a message and wait until there is one
// (ope.Await), oldest first. It belongs to claims. A message that no receive has matched is
// offered to them before it waits for a receive.
type awaited struct {
	list  []*ope.Order
	peers *peers
}

// add makes r wait, unless it names a peer that has failed.
func (a *awaited) add(c *claims, r *ope.Request, from *peer.Link) {
	if from != nil && from.Err != nil {
		c.reject(r, from.Err)
		return
	}
	o := c.pools.Orders.Get(r, c.env.Sh.Now())
	if from != nil {
		o.Await(from)
	}
	a.list = append(a.list, o)
}

// source returns the peer that r names, nil if it names none. Its unexpected messages can
// be found by the handle from then on.
func (a *awaited) source(r *ope.Request) (*peer.Link, error) {
	if r.Flags&ope.Await == 0 || r.Peer >= uint64(match.NotAvail) {
		return nil, nil
	}
	return a.peers.link(r.Peer)
}

// offer looks whether those that wait find something now.
func (a *awaited) offer(c *claims) {
	for i := 0; i < len(a.list); {
		o := a.list[i]
		m := c.look(&o.Req)
		if m == nil {
			i++
			continue
		}
		a.list = slices.Delete(a.list, i, i+1)
		c.found(&o.Req, m)
		c.pools.Orders.Put(o)
	}
}

// fail ends those that keep does not want.
func (a *awaited) fail(c *claims, keep func(*ope.Order) bool, err error) {
	var doomed []*ope.Order
	a.list = slices.DeleteFunc(a.list, func(o *ope.Order) bool {
		if !keep(o) {
			doomed = append(doomed, o)
			return true
		}
		return false
	})
	for _, o := range doomed {
		c.reject(&o.Req, err)
		c.pools.Orders.Put(o)
	}
}

// cancel ends the one with an id, if it is there.
func (a *awaited) cancel(c *claims, id uint64) {
	if len(a.list) > 0 {
		a.fail(c, func(o *ope.Order) bool { return o.Req.ID != id }, errno.ErrCanceled)
	}
}

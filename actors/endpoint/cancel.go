package endpoint

import (
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/shard"
)

// onCancel ends the operation id if it has not ended: a posted receive at once, an
// operation in progress as it can.
func (e *Endpoint) onCancel(id uint64) {
	var found *ope.Order
	e.table.EachRecv(func(r *match.Recv) bool {
		if p := e.pools.Orders.At(r.Owner); p.Req.ID == id {
			found = p
		}
		return found == nil
	})
	if found != nil {
		e.table.RemoveRecv(&found.Recv)
		e.end(found, errno.ErrCanceled)
		return
	}
	e.pools.CancelParts(id, nil, errno.ErrCanceled)
	e.claims.awaited.cancel(&e.claims, id)
	cancel := func(to shard.Ref, its uint64) {
		if its == id {
			e.cfg.Shard.Tell(to, &ope.Cancel{ID: id, Err: errno.ErrCanceled})
		}
	}
	e.pools.EachTx(func(t *ope.Txe) { cancel(t.Ref(), t.Request().ID) })
	e.pools.EachRx(func(r *ope.Rxe) { cancel(r.Ref(), r.RequestID()) })
}

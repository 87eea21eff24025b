package endpoint

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
)

// Revoke ends the operations that use a region which is being closed, or whose buffer lies
// in it. They have it in use until they have ended; the caller has it in use until Revoke
// returns. Runs on the shard.
func (e *Endpoint) Revoke(r *mr.Region) {
	if e.closing.state == stopped {
		return
	}
	if e.port != nil {
		e.port.Revoke(r)
		return
	}
	sh := e.cfg.Shard
	e.pools.EachTx(func(t *ope.Txe) {
		if t.Concerns(r) {
			sh.Tell(t.Ref(), &ope.Revoke{Region: r})
		}
	})
	e.pools.EachRx(func(x *ope.Rxe) {
		if x.Concerns(r) {
			sh.Tell(x.Ref(), &ope.Revoke{Region: r})
		}
	})
	e.many.revoke(r)
	if mem := r.Bytes(); mem != nil {
		e.pools.CancelParts(0, mem, ope.ErrRegionClosed)
	}
	e.failReceives(func(o *ope.Order) bool { return !o.Req.Touches(r.Bytes()) }, ope.ErrRegionClosed)
	if r.Access()&(device.RemoteRead|device.RemoteWrite) == 0 {
		return
	}
	for l := range e.peers.routes.all() {
		l.ForgiveKeys()
	}
}

package ope

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
)

// Served is an access of the peer's that was carried out here, see [Pools.OnServed].
type Served struct {
	Access  mr.Access // device.RemoteRead or device.RemoteWrite
	N       uint64    // bytes
	HasData bool
	Regions []*mr.Region // that it was in, while the call lasts
}

// servedWrite reports a write of the peer's that is complete.
func (r *Rxe) servedWrite() {
	if r.pools.OnServed == nil || r.err != nil || !r.target || r.x == nil || r.x.nacked {
		return
	}
	s := Served{Access: device.RemoteWrite, N: r.m.Total, HasData: r.says.HasData, Regions: r.x.regions[:r.x.n]}
	r.pools.OnServed(r.link, &s)
}

// servedRead reports a read of the peer's whose last packet has arrived, once: the regions
// are let go next.
func (t *Txe) servedRead() {
	if t.pools.OnServed == nil || t.m.Proto != ReadResponse || t.m.State != TxDone || t.x.n == 0 {
		return
	}
	s := Served{Access: device.RemoteRead, N: t.m.Total, Regions: t.x.regions[:t.x.n]}
	t.pools.OnServed(t.link, &s)
}

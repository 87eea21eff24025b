package endpoint

import (
	"github.com/efactor/efactor/actors/atomics"
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// Served is an access of a peer's to memory here that the endpoint has carried out. What a
// device carries out by itself nobody hears of.
type Served struct {
	Handle  uint64 // of the peer, or peer.Unlisted
	From    *wire.RawAddr
	Path    uint8     // that From is on
	Access  mr.Access // device.RemoteRead: a read, or an atomic that fetches; device.RemoteWrite: a write, or another atomic
	N       int       // bytes of the memory
	HasData bool      // it is a write that OnWritten reports, too
	Regions []*mr.Region
}

// reports passes on to f what operations report.
func (a *access) reports(f func(*Served)) func(*peer.Link, *ope.Served) {
	if f == nil {
		return nil
	}
	return func(l *peer.Link, s *ope.Served) {
		if a.closing.state != open {
			return
		}
		f(&Served{
			Handle: l.Handle, From: &l.Addr, Path: l.Path, Access: s.Access, N: int(s.N), HasData: s.HasData, Regions: s.Regions,
		})
	}
}

// served reports an atomic that was carried out on targets.
func (a *access) served(pkt *peer.Packet, form atomics.Form, to []ope.Target) {
	if a.pools.OnServed == nil {
		return
	}
	s := ope.Served{Access: device.RemoteRead, N: pkt.Length}
	if form == atomics.Write {
		s.Access = device.RemoteWrite
	}
	var regions [wire.MaxIOV]*mr.Region
	for i := range to {
		regions[i] = to[i].Region
	}
	s.Regions = regions[:len(to)]
	a.pools.OnServed(pkt.Link, &s)
}

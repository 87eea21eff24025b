package endpoint

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// pathsOf lists the ways that a queue pair has: one, unless it is over several devices.
func pathsOf(qp device.QP, info *device.Info) []device.Path {
	if p, ok := qp.(device.Pather); ok {
		return p.Paths()
	}
	return []device.Path{{Info: *info, QPN: qp.QPN()}}
}

// peerPaths is what peers are told of them.
func (e *Endpoint) peerPaths(paths []device.Path) []peer.Path {
	ps := make([]peer.Path, len(paths))
	for i := range paths {
		p := &paths[i]
		ps[i] = peer.Path{Addr: wire.MakeRawAddr(p.Info.GID, p.QPN, e.cfg.ConnID), Device: p.Info.Name}
	}
	return ps
}

// policies are the endpoint's on each path: what its user left open is the device's.
func policies(p ope.Policy, paths []device.Path) []ope.Policy {
	ps := make([]ope.Policy, len(paths))
	for i := range paths {
		ps[i] = policyOn(p, &paths[i].Info)
	}
	return ps
}

func policyOn(p ope.Policy, i *device.Info) ope.Policy {
	if p.MaxMedium == 0 {
		p.MaxMedium = i.MaxMedium
	}
	if p.MinRead == 0 {
		p.MinRead = i.MinRead
	}
	if p.MinReadWrite == 0 {
		p.MinReadWrite = i.MinReadWrite
	}
	p = p.WithDefaults()
	p.ReadSegment = min(p.ReadSegment, i.MaxRDMA)
	return p
}

// pathOf is the path that an address handle belongs to.
func (e *Endpoint) pathOf(ah device.AH) uint8 {
	if p, ok := e.queue.QP().(device.Pather); ok {
		return uint8(p.PathOf(ah))
	}
	return 0
}

// Addr is the endpoint's raw address, on its first path.
func (e *Endpoint) Addr() wire.RawAddr { return e.addr }

// Addrs are its raw addresses, by path.
func (e *Endpoint) Addrs() []wire.RawAddr {
	as := make([]wire.RawAddr, len(e.env.Paths))
	for i := range as {
		as[i] = e.env.Paths[i].Addr
	}
	return as
}

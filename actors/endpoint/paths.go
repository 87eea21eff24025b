package endpoint

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/wire"
)

// pathsOf lists the paths of a queue pair: one, unless it is over several devices.
func pathsOf(qp device.QP, info *device.Info) []device.Path {
	if ps := qp.Paths(); ps != nil {
		return ps
	}
	return []device.Path{{Info: *info, QPN: qp.QPN()}}
}

// peerPaths are the paths as peers know them.
func peerPaths(paths []device.Path, connid uint32) []peer.Path {
	ps := make([]peer.Path, len(paths))
	for i := range paths {
		p := &paths[i]
		ps[i] = peer.Path{Addr: wire.MakeRawAddr(p.Info.GID, p.QPN, connid), Device: p.Info.Name, Pulse: p.Info.Pulse, HoldsBack: p.Info.HoldsBack}
	}
	return ps
}

// settingsOn returns the settings in force on each path.
func settingsOn(s *settings.InForce, paths []device.Path) []settings.InForce {
	on := make([]settings.InForce, len(paths))
	for i := range paths {
		on[i] = s.On(&paths[i].Info)
	}
	return on
}

// Addrs returns the endpoint's raw addresses, one for each path, best first.
func (e *Endpoint) Addrs() []wire.RawAddr {
	as := make([]wire.RawAddr, len(e.env.Paths))
	for i := range as {
		as[i] = e.env.Paths[i].Addr
	}
	return as
}

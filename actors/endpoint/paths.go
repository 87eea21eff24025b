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

// infosOf are the devices' own abilities, by path.
func infosOf(paths []device.Path) []device.Info {
	infos := make([]device.Info, len(paths))
	for i := range paths {
		infos[i] = paths[i].Info
	}
	return infos
}

// peerPaths are the paths as peers know them.
func peerPaths(paths []device.Path, on []settings.InForce, connid uint32) []peer.Path {
	ps := make([]peer.Path, len(paths))
	for i := range paths {
		p := &paths[i]
		ps[i] = peer.Path{
			Addr: wire.MakeRawAddr(p.Info.GID, p.QPN, connid), Device: p.Info.Name, Kind: p.Info.Kind(), Pulse: p.Info.Pulse,
			Features: on[i].Features, DeviceID: on[i].DeviceID, HoldsBack: p.Info.HoldsBack,
		}
	}
	return ps
}

// settingsOn returns the settings in force on each path. Of several devices each tells its
// own peers what RDMA it has.
func settingsOn(s *settings.InForce, paths []device.Path) []settings.InForce {
	on := make([]settings.InForce, len(paths))
	for i := range paths {
		on[i] = s.On(&paths[i].Info)
		if len(paths) > 1 {
			on[i].Features = on[i].Era.Knows(on[i].Settings.Features(&paths[i].Info))
		}
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

// reserve takes the memory that reads into plain memory go by way of, where a path's device
// wants registered memory. Without it no such path can say that it reads.
func (e *Endpoint) reserve(paths []device.Path) {
	var err error
	for i := range paths {
		f := &e.env.Paths[i].Features
		if !paths[i].Info.LocalKeys || !f.Has(wire.FeatureRDMARead) {
			continue
		}
		if err = e.pools.Reserve(); err != nil {
			f.Clear(wire.FeatureRDMARead)
		}
	}
	if err != nil {
		e.cfg.Log.Warn("no RDMA read: its memory was refused", "err", err)
	}
}

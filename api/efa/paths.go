package efa

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/efactor/efactor/actors/device"
)

// fabricPath is one of the devices that a Fabric is on.
type fabricPath struct {
	scheme string // of addresses on it
	name   string
	gid    device.GID
	dev    Device
}

// pathsOf lists the devices that dev joins, or dev alone.
func pathsOf(dev Device) []fabricPath {
	parts := dev.Devices()
	if parts == nil {
		parts = []Device{dev}
	}
	paths := make([]fabricPath, len(parts))
	for i, d := range parts {
		info := d.Info()
		paths[i] = fabricPath{scheme: info.Kind(), name: info.Name, gid: info.GID, dev: d}
	}
	return paths
}

// reaches reports whether the path may lead to gid. A device that is alone is not asked:
// there is nothing to choose.
func (f *Fabric) reaches(p *fabricPath, gid device.GID) bool {
	return len(f.paths) == 1 || p.dev.Reaches(gid)
}

// choose picks the path to an address: that on the first of our devices which has one
// and reaches it. The other side, which has the same order, picks the same.
func (f *Fabric) choose(a Address, want *AddressVectorConfig) (raw RawAddr, path int, err error) {
	if a.IsZero() {
		return raw, 0, fmt.Errorf("%w: the zero Address, as of an endpoint that is not enabled", ErrAddrNotAvail)
	}
	named, barred := false, want.RemoteOnly && f.isLocal(a)
	for i := range f.paths {
		p := &f.paths[i]
		for _, x := range a.paths {
			if x.scheme != p.scheme {
				continue
			}
			gid := x.raw.GID()
			if gid == (device.GID{}) {
				return raw, 0, fmt.Errorf("%w: the GID of %q is zero", ErrAddrNotAvail, a)
			}
			if named = true; !barred && want.allows(p, gid) && f.reaches(p, gid) {
				return x.raw, i, nil
			}
		}
	}
	if named && *want != (AddressVectorConfig{}) {
		return raw, 0, fmt.Errorf("%w: %q is out of the reach of %s, or of what the address vector is for", ErrAddrNotAvail, a, f.dev.Info().Name)
	}
	if named {
		return raw, 0, fmt.Errorf("%w: %q is out of the reach of %s", ErrAddrNotAvail, a, f.dev.Info().Name)
	}
	return raw, 0, fmt.Errorf("%w: %q has no path on a %s device", ErrAddrNotAvail, a, strings.Join(f.schemes(), " or "))
}

func (f *Fabric) schemes() []string {
	ss := make([]string, len(f.paths))
	for i := range f.paths {
		ss[i] = f.paths[i].scheme
	}
	return ss
}

// chose writes down which path an address in the vector has got.
func (f *Fabric) chose(h Addr, name string, a Address, path int) {
	if len(f.paths) == 1 || !f.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	why := "the first device that reaches it"
	if path == len(f.paths)-1 {
		why = "no other device reaches it"
	}
	args := []any{"peer", uint64(h), "address", a, "device", f.paths[path].name, "why", why}
	if name != "" {
		args = append(args, "name", name)
	}
	f.log.Debug("efa: device for a peer", args...)
}

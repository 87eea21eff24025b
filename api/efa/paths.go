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
	reach  device.Reacher // nil: it reaches everything
}

// pathsOf lists the devices that dev is made of, or dev alone. One that is alone is not
// asked what it reaches: there is nothing to choose.
func pathsOf(dev Device) []fabricPath {
	parts := partsOf(dev)
	paths := make([]fabricPath, len(parts))
	for i, d := range parts {
		name := d.Info().Name
		paths[i] = fabricPath{scheme: schemeOf(name), name: name}
		if len(parts) > 1 {
			paths[i].reach, _ = d.(device.Reacher)
		}
	}
	return paths
}

func partsOf(dev Device) []Device {
	if several, ok := dev.(interface{ Devices() []Device }); ok {
		return several.Devices()
	}
	return []Device{dev}
}

// environmentOf is the simulation that dev, or what it is made of, brings along.
func environmentOf(dev Device) (Environment, bool) {
	if env, ok := dev.(Environment); ok {
		return env, true
	}
	for _, d := range partsOf(dev) {
		if env, ok := d.(Environment); ok {
			return env, true
		}
	}
	return nil, false
}

// schemeOf is the kind of a device: the small letters that its name begins with.
func schemeOf(name string) string {
	for i := range len(name) {
		if c := name[i]; c < 'a' || c > 'z' {
			return name[:i]
		}
	}
	return name
}

// choose picks the path to an address: that on the first of our devices which has one
// and reaches it. The other side, which has the same order, picks the same.
func (f *Fabric) choose(a Address) (raw RawAddr, path int, err error) {
	if a.IsZero() {
		return raw, 0, fmt.Errorf("%w: the zero Address, as of an endpoint that is not enabled", ErrAddrNotAvail)
	}
	named := false
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
			if named = true; p.reach == nil || p.reach.Reaches(gid) {
				return x.raw, i, nil
			}
		}
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
func (f *Fabric) chose(h Addr, a Address, path int) {
	if len(f.paths) == 1 || !f.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	why := "the first device that reaches it"
	if path == len(f.paths)-1 {
		why = "no other device reaches it"
	}
	f.log.Debug("efa: device for a peer", "peer", uint64(h), "address", a, "device", f.paths[path].name, "why", why)
}

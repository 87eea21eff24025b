package multi

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/efactor/efactor/actors/device"
)

// ErrMismatch is returned by Open for devices that cannot be combined.
var ErrMismatch = errors.New("multi: the devices do not fit together")

// maxDevices bounds the devices of Open: there are few kinds of device.
const maxDevices = device.MaxPaths

// Device is several devices as one; it implements [device.Device].
type Device struct {
	device.Base
	devs  []device.Device
	infos []device.Info
	info  device.Info

	users device.RefCount
}

var _ device.Device = (*Device)(nil)

// Open makes one device of devs, best first. It owns them from then on: Close
// closes them. After an error they are the caller's.
func Open(devs ...device.Device) (*Device, error) {
	if len(devs) == 0 || len(devs) > maxDevices {
		return nil, fmt.Errorf("%w: %d of them, want 1 to %d", ErrMismatch, len(devs), maxDevices)
	}
	d := &Device{devs: slices.Clone(devs)}
	for i, x := range devs {
		d.infos = append(d.infos, x.Info())
		if err := d.fits(i); err != nil {
			return nil, fmt.Errorf("%w: %s %w", ErrMismatch, d.infos[i].Name, err)
		}
	}
	var err error
	d.info, err = merge(d.infos)
	return d, err
}

// fits compares a device with those before it.
func (d *Device) fits(i int) error {
	gid := d.infos[i].GID
	switch {
	case d.devs[i].Devices() != nil:
		return errors.New("is several already")
	case slices.ContainsFunc(d.infos[:i], func(x device.Info) bool { return x.GID == gid }):
		return errors.New("has one GID with another, so that a GID does not tell them apart")
	}
	return nil
}

// merge returns the properties that all of the devices have.
func merge(infos []device.Info) (device.Info, error) {
	all := infos[0]
	names := make([]string, len(infos))
	for i := range infos {
		x := &infos[i]
		names[i] = x.Name
		if x.PartID != all.PartID && x.PartID != 0 && all.PartID != 0 {
			return device.Info{}, fmt.Errorf("%w: PartID of %s is %#x, of %s %#x", ErrMismatch, infos[0].Name, all.PartID, x.Name, x.PartID)
		}
		// Packets are as long as every path has them; what comes may be longer on its path.
		all.MTU = min(all.MTU, x.MTU)
		all.LocalKeys = all.LocalKeys || x.LocalKeys // those without do not look at the keys
		all.PartID = max(all.PartID, x.PartID)       // software has none
		all.MaxSQ = least(all.MaxSQ, x.MaxSQ)
		all.MaxRQ = least(all.MaxRQ, x.MaxRQ)
		all.MaxQP = least(all.MaxQP, x.MaxQP)
		all.MaxMR = least(all.MaxMR, x.MaxMR)
		all.CopiesAtPost = all.CopiesAtPost && x.CopiesAtPost
		all.Gathers = all.Gathers && x.Gathers
		all.MinRegister = max(all.MinRegister, x.MinRegister) // each path has its own
		all.RDMARead = all.RDMARead && x.RDMARead
		all.RDMAWrite = all.RDMAWrite && x.RDMAWrite
		all.UnsolicitedWrite = all.UnsolicitedWrite && x.UnsolicitedWrite
		all.MaxRDMA = min(all.MaxRDMA, x.MaxRDMA)
		all.MaxPieces = min(all.MaxPieces, x.MaxPieces)
		all.MaxRDMAPieces = min(all.MaxRDMAPieces, x.MaxRDMAPieces)
		all.SendKeys = all.SendKeys || x.SendKeys
		all.Pulse = all.Pulse && x.Pulse // paths differ, see QP.Paths
		all.HoldsBack = all.HoldsBack && x.HoldsBack
		all.Windows, all.Plain = all.Windows && x.Windows, all.Plain && x.Plain
		all.Datagram = all.Datagram && x.Datagram
		if cmp.Or(x.MaxMedium, efaMaxMedium) < cmp.Or(all.MaxMedium, efaMaxMedium) {
			all.MaxMedium = x.MaxMedium
		}
		all.MinRead = least(all.MinRead, x.MinRead)
	}
	// A receive of the caller's belongs to one queue pair, and memory that is not this
	// process's to one device.
	all.Foreign, all.DMABuf = false, false
	if !all.RDMARead && !all.RDMAWrite {
		all.MaxRDMA = 0
	}
	all.Name = "multi(" + strings.Join(names, ", ") + ")"
	return all, nil
}

// least returns the smaller of two limits; 0 means no limit.
func least(a, b int) int {
	if a == 0 || b == 0 {
		return cmp.Or(a, b)
	}
	return min(a, b)
}

// efaMaxMedium is what no Info.MaxMedium means.
const efaMaxMedium = 65536

// Info implements device.Device. GID and MinReadWrite are the first device's; the abilities
// are those that all devices have. A message shorter than MinRead and not longer than
// MaxMedium waits for its receiver on none of them; on which path the peer is decides.
func (d *Device) Info() device.Info { return d.info }

// Devices implements device.Device.
func (d *Device) Devices() []device.Device { return slices.Clone(d.devs) }

// Reaches implements device.Device.
func (d *Device) Reaches(gid device.GID) bool { return d.reaching(gid) >= 0 }

// reaching is the first device that reaches gid, -1 if none does.
func (d *Device) reaching(gid device.GID) int {
	return slices.IndexFunc(d.devs, func(x device.Device) bool { return x.Reaches(gid) })
}

// Environment implements device.Device: the first that a device has.
func (d *Device) Environment() device.Environment {
	for _, x := range d.devs {
		if env := x.Environment(); env != nil {
			return env
		}
	}
	return nil
}

// Close implements device.Device.
func (d *Device) Close() error {
	return d.users.Close(func() error {
		var errs []error
		for _, x := range slices.Backward(d.devs) {
			errs = append(errs, x.Close())
		}
		return errors.Join(errs...)
	})
}

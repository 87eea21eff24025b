package multi

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
)

// keyTries is how many regions are made for one whose key is free on all devices. With
// all regions in use a random key is taken once in 65536 times.
const keyTries = 16

// region is memory that every device knows. The first one named it; it owns the
// memory if there is an owner.
type region struct {
	dev    *Device
	mrs    []device.MR // by device
	remote bool
	closed atomic.Bool
}

// Register implements device.Device.
func (d *Device) Register(mem []byte, a device.Access) (device.MR, error) {
	return d.newRegion(a, func() (device.MR, error) { return d.devs[0].Register(mem, a) })
}

// Alloc implements device.Device. The memory is of the first device's kind.
func (d *Device) Alloc(n int, a device.Access) (device.MR, error) {
	return d.newRegion(a, func() (device.MR, error) { return d.devs[0].Alloc(n, a) })
}

// newRegion makes regions on the first device until the others take the key of one.
func (d *Device) newRegion(a device.Access, first func() (device.MR, error)) (device.MR, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	for range keyTries {
		r := &region{dev: d, remote: true}
		err := r.register(a, first)
		if err == nil {
			return r, nil
		}
		if undo := r.undo(); undo != nil || !errors.Is(err, device.ErrKeyInUse) {
			d.leave()
			return nil, errors.Join(err, undo)
		}
	}
	d.leave()
	return nil, fmt.Errorf("%w: no key is free on all devices", device.ErrNoMemory)
}

// register makes the region on each device. After an error undo takes back what there is.
func (r *region) register(a device.Access, first func() (device.MR, error)) error {
	for i, x := range r.dev.devs {
		if i == 0 {
			m, err := first()
			if err != nil {
				return err
			}
			r.add(m)
			if m.LKey() != m.RKey() && len(r.dev.devs) > 1 {
				return fmt.Errorf("%w: two keys for one region on %s", device.ErrNotSupported, r.dev.infos[0].Name)
			}
			continue
		}
		if !r.remote {
			a = localOnly(a) // nobody is told the key
		}
		m, err := x.(device.Keyed).RegisterKeyed(r.Bytes(), a, r.Addr(), r.RKey()) // Open has looked
		if err != nil {
			return fmt.Errorf("%s: %w", r.dev.infos[i].Name, err)
		}
		r.add(m)
	}
	return nil
}

// localOnly is what of a is no right of others.
func localOnly(a device.Access) device.Access {
	if a&device.RemoteWrite != 0 {
		a |= device.LocalWrite
	}
	return a & device.LocalWrite
}

func (r *region) add(m device.MR) {
	r.mrs = append(r.mrs, m)
	r.remote = r.remote && m.Remote()
}

// Bytes implements device.MR.
func (r *region) Bytes() []byte { return r.mrs[0].Bytes() }

// Addr implements device.MR.
func (r *region) Addr() uint64 { return r.mrs[0].Addr() }

// LKey implements device.MR.
func (r *region) LKey() uint32 { return r.mrs[0].LKey() }

// RKey implements device.MR.
func (r *region) RKey() uint32 { return r.mrs[0].RKey() }

// Remote implements device.MR: whether all devices reach it, since the region has one
// key for all peers.
func (r *region) Remote() bool { return r.remote }

// Close implements device.MR.
func (r *region) Close() error {
	if r.closed.Swap(true) {
		return device.ErrClosed
	}
	err := r.undo()
	r.dev.leave()
	return err
}

// undo closes the region on the devices, the first last: when it gives the memory back,
// nobody reaches it over another any more.
func (r *region) undo() error {
	var errs []error
	for _, m := range slices.Backward(r.mrs) {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

package multi

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
)

// region is memory that every device knows, each by a key of its own. The first device
// owns the memory if there is an owner.
type region struct {
	dev    *Device
	parts  []device.MR // by device
	closed atomic.Bool
}

// Register implements device.Device. Of the rights device.Message is each device's own.
func (d *Device) Register(mem []byte, a device.Access) (device.MR, error) {
	return d.newRegion(a, func() (device.MR, error) { return d.devs[0].Register(mem, a.On(&d.infos[0])) })
}

// Alloc implements device.Device. The memory is of the first device's kind.
func (d *Device) Alloc(n int, a device.Access) (device.MR, error) {
	return d.newRegion(a, func() (device.MR, error) { return d.devs[0].Alloc(n, a.On(&d.infos[0])) })
}

func (d *Device) newRegion(a device.Access, first func() (device.MR, error)) (device.MR, error) {
	if err := d.users.Acquire(); err != nil {
		return nil, err
	}
	r := &region{dev: d}
	for i, x := range d.devs {
		var m device.MR
		var err error
		if i == 0 {
			m, err = first()
		} else {
			m, err = x.Register(r.Bytes(), a.On(&d.infos[i]))
		}
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", d.infos[i].Name, err), r.undo())
			d.users.Release()
			return nil, err
		}
		r.parts = append(r.parts, m)
	}
	return r, nil
}

// Bytes implements device.MR.
func (r *region) Bytes() []byte { return r.parts[0].Bytes() }

// Addr implements device.MR.
func (r *region) Addr() uint64 { return r.parts[0].Addr() }

// LKey implements device.MR.
func (r *region) LKey() uint32 { return r.parts[0].LKey() }

// RKey implements device.MR.
func (r *region) RKey() uint64 { return r.parts[0].RKey() }

// Remote implements device.MR.
func (r *region) Remote() bool { return r.parts[0].Remote() }

// Parts implements device.MR.
func (r *region) Parts() []device.MR { return r.parts }

// Close implements device.MR.
func (r *region) Close() error {
	if r.closed.Swap(true) {
		return device.ErrClosed
	}
	err := r.undo()
	r.dev.users.Release()
	return err
}

// undo closes the region on the devices, the first last: when it releases the memory,
// no other device reaches it any more.
func (r *region) undo() error {
	var errs []error
	for _, m := range slices.Backward(r.parts) {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

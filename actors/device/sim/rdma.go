package sim

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
)

// newRegions makes the table of the device that was opened last. In virtual time
// keys come from the seed and addresses are numbers, different ones for each
// device.
func (f *Fabric) newRegions(limit int) *nic.Regions {
	cfg := nic.RegionsConfig{Max: limit}
	if f.virtual != nil {
		cfg.Key, cfg.Base = func() uint64 { return uint64(f.rng.Uint32()) }, uint64(f.opened)<<40
	}
	return nic.NewRegions(cfg)
}

// Register implements device.Device.
func (d *Device) Register(mem []byte, a device.Access) (device.MR, error) {
	d.fab.lock()
	defer d.fab.unlock()
	if err := d.admitRegion(); err != nil {
		return nil, err
	}
	return d.regions.Register(mem, a)
}

// Alloc implements device.Device.
func (d *Device) Alloc(n int, a device.Access) (device.MR, error) {
	d.fab.lock()
	defer d.fab.unlock()
	if err := d.admitRegion(); err != nil {
		return nil, err
	}
	return d.regions.Alloc(n, a)
}

func (d *Device) admitRegion() error {
	switch {
	case d.closed || d.killed:
		return device.ErrClosed
	case d.fab.strike(FaultRefuseMR, &Event{From: Endpoint{GID: d.port.gid}}) != nil:
		return fmt.Errorf("%w: by a rule", device.ErrNoMemory)
	}
	return nil
}

// RDMA implements nic.Carrier.
func (c *qp) RDMA(wr *device.SendWR, token uint64) device.Status {
	if dst := c.near(wr); dst != nil {
		return c.access(dst, &c.src, wr)
	}
	c.fab.send(c, wr, token)
	return nic.Pending
}

// access performs c's request at dst.
func (c *qp) access(dst *qp, from *nic.Source, wr *device.SendWR) device.Status {
	mine, theirs := &c.dev.info, &dst.dev.info
	switch {
	case wr.Kind == device.WRRead && !theirs.RDMARead,
		wr.Kind == device.WRWrite && !theirs.RDMAWrite,
		wr.HasImm && mine.UnsolicitedWrite != theirs.UnsolicitedWrite:
		return device.StatusMismatch
	case len(wr.Payload) > theirs.MaxRDMA:
		return device.StatusRemoteBadLength
	}
	if mine.LocalKeys {
		r := c.dev.regions.HoldLocal(wr.LKey, wr.Payload, nic.LocalAccess(wr.Kind))
		if r == nil { // closed since the post
			return device.StatusInvalidLKey
		}
		defer r.Release()
	}
	return dst.inbox.RDMA(from, wr, dst.dev.regions)
}

// dropRDMA drops the requests of a closed queue pair: their memory is the caller's
// again, and their bytes were not copied.
func (f *Fabric) dropRDMA(c *qp) {
	for _, fl := range f.flights {
		if fl.src == c && fl.what == requestFlight && fl.wr.Kind != device.WRSend {
			fl.what, fl.wr = droppedFlight, device.SendWR{}
		}
	}
}

package script

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
)

// RegisterAt makes a region of mem with the given remote address and key, as a
// capture has them: no other region may have the key.
func (r *Rig) RegisterAt(name string, mem []byte, a Rights, addr, key uint64) (*Region, error) {
	dev, table := a.split()
	m, err := r.dev.regions.Add(nic.Memory{Bytes: mem, Access: dev, Addr: addr})
	if err != nil {
		return nil, err
	}
	x := &Region{Region: r.Regions.Add(&keyed{MR: m, key: key}, table), Name: name}
	x.OnIdle = func() { r.closeRegion(x) }
	r.regions = append(r.regions, x)
	return x, nil
}

// keyed is a region of the device with another remote key.
type keyed struct {
	device.MR
	key uint64
}

// RKey implements device.MR.
func (k *keyed) RKey() uint64 { return k.key }

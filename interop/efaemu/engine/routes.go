package engine

import "github.com/efactor/efactor/actors/device"

// routes are the address handles that a queue pair has at its device, made when a
// WQE first names the program's. The zero value is empty.
type routes struct {
	out []route      // by the program's number
	gid []device.GID // by the device's
}

type route struct {
	ah  device.AH
	set bool
}

// to returns the device's handle for the program's.
func (r *routes) to(qp device.QP, a *ahEntry) (device.AH, error) {
	for int(a.number) >= len(r.out) {
		r.out = append(r.out, route{})
	}
	if t := r.out[a.number]; t.set {
		return t.ah, nil
	}
	ah, err := qp.CreateAH(a.gid)
	if err != nil {
		return device.UnknownAH, err
	}
	for int(ah) >= len(r.gid) {
		r.gid = append(r.gid, device.GID{})
	}
	r.out[a.number] = route{ah, true}
	r.gid[ah] = a.gid
	return ah, nil
}

// drop forgets the program's handle. Packets that wait to be sent again through it
// end with device.StatusInvalidAH.
func (r *routes) drop(qp device.QP, number uint16) {
	if int(number) >= len(r.out) || !r.out[number].set {
		return
	}
	if qp != nil {
		_ = qp.DestroyAH(r.out[number].ah)
	}
	r.out[number] = route{}
}

// source is the GID of the sender of c. The device may name a handle that was
// dropped after the packet came.
func (r *routes) source(c *device.Completion) device.GID {
	if int(c.AH) < len(r.gid) {
		return r.gid[c.AH]
	}
	return c.SrcGID
}

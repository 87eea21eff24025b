package peer

import (
	"github.com/efactor/efactor/actors/device"
)

// multipathHandle is a way to the peer's host beside the path that its messages take.
type multipathHandle struct {
	path uint8
	gid  device.GID
	ah   device.AH
}

// multipathQP is a queue pair over several devices, of which several may reach a GID.
type multipathQP interface {
	CreateAHOn(path uint8, gid device.GID) (device.AH, error)
}

// Multipath is the ways to one peer's host beside the path of its messages.
type Multipath struct{ list []multipathHandle }

// Handle is that of gid, another GID of the peer's host, on a path of the queue pair. It is
// made at its first use, and kept as long as the peer.
func (r *Multipath) Handle(on device.QP, path uint8, gid device.GID) (device.AH, error) {
	for i := range r.list {
		if x := &r.list[i]; x.path == path && x.gid == gid {
			return x.ah, nil
		}
	}
	qp, ok := on.(multipathQP)
	if !ok {
		return device.UnknownAH, device.ErrNotSupported
	}
	ah, err := qp.CreateAHOn(path, gid)
	if err == nil {
		r.list = append(r.list, multipathHandle{path, gid, ah})
	}
	return ah, err
}

// Drop gives the handles back, when no request uses them any more.
func (r *Multipath) Drop(qp device.QP) {
	for _, x := range r.list {
		_ = qp.DestroyAH(x.ah) // it was created by us, so this does not fail
	}
	r.list = nil
}

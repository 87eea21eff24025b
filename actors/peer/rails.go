package peer

import "github.com/efactor/efactor/actors/device"

// rail is a way to the peer's host beside the path that its messages take.
type rail struct {
	path uint8
	gid  device.GID
	ah   device.AH
}

// railed is a queue pair over several devices, of which several may reach a GID.
type railed interface {
	CreateAHOn(path uint8, gid device.GID) (device.AH, error)
}

// Rail is the handle of gid, another GID of the peer's host, on a path. It is made at its
// first use, and kept as long as the peer.
func (l *Link) Rail(path uint8, gid device.GID) (device.AH, error) {
	for i := range l.rails {
		if r := &l.rails[i]; r.path == path && r.gid == gid {
			return r.ah, nil
		}
	}
	qp, ok := l.env.Q.QP().(railed)
	if !ok {
		return device.UnknownAH, device.ErrNotSupported
	}
	ah, err := qp.CreateAHOn(path, gid)
	if err == nil {
		l.rails = append(l.rails, rail{path, gid, ah})
	}
	return ah, err
}

// DropRails gives the handles of Rail back, when no request uses them any more.
func (l *Link) DropRails() {
	for _, r := range l.rails {
		_ = l.env.Q.QP().DestroyAH(r.ah) // it was created by us, so this does not fail
	}
	l.rails = nil
}

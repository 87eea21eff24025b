package tcp

import "github.com/efactor/efactor/actors/device"

// refusals are why hosts were not reached because of credentials or versions, for the operations
// that end with device.StatusUnknownPeer or StatusMismatch.
type refusals struct{ of map[device.GID]error }

// maxRefusals bounds what is remembered; all of it is forgotten beyond.
const maxRefusals = 1 << 10

// note remembers why a connection to a host was not made.
func (r *refusals) note(gid device.GID, why error) {
	if r.of == nil || len(r.of) >= maxRefusals {
		r.of = map[device.GID]error{}
	}
	r.of[gid] = why
}

// forget is for a host that was reached.
func (r *refusals) forget(gid device.GID) { delete(r.of, gid) }

// Why implements nic.Explainer.
func (r *refusals) Why(gid device.GID) error { return r.of[gid] }

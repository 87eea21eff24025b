package efa

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
)

// AddressVectorConfig says which peers an address vector takes, and by which devices its
// endpoints reach them. The zero value takes all, by the best device for each.
type AddressVectorConfig struct {
	// NoSharedMemory keeps shared memory from being used for peers of this host where the
	// Fabric is on other devices, too, as "auto" is (FI_OPT_SHARED_MEMORY_PERMITTED):
	// packets go by the first other device that reaches them. The Address of an endpoint
	// with such a vector leaves shared memory out, so that its peers take the same path.
	NoSharedMemory bool
	// LocalOnly refuses peers of other hosts, RemoteOnly those of this host (FI_LOCAL_COMM,
	// FI_REMOTE_COMM), with ErrAddrNotAvail. A peer is of this host if it is in shared memory
	// that the device reaches, or if its address has the GID of a device of the Fabric.
	LocalOnly, RemoteOnly bool
}

// sharedMemory is the scheme of addresses in shared memory.
const sharedMemory = "shm"

// OpenAddressVector makes an address vector with settings. ErrInvalid: they leave no peer that could be
// in it, or the fabric has only the shared memory that NoSharedMemory does without.
func (d *Domain) OpenAddressVector(cfg AddressVectorConfig) (_ *AddressVector, err error) {
	defer formed("open address vector", &err)
	if cfg.LocalOnly && cfg.RemoteOnly {
		return nil, fmt.Errorf("%w: an address vector with LocalOnly and RemoteOnly takes nobody", ErrInvalid)
	}
	if cfg.NoSharedMemory && len(d.fab.paths) == 1 && d.fab.paths[0].scheme == sharedMemory {
		return nil, fmt.Errorf("%w: NoSharedMemory on a fabric that is on %s alone", ErrInvalid, d.fab.Name())
	}
	av := newAV(d)
	av.cfg = cfg
	return av, nil
}

// allows reports whether a peer at gid may be reached by p.
func (c *AddressVectorConfig) allows(p *fabricPath, gid device.GID) bool {
	switch {
	case c.NoSharedMemory && p.scheme == sharedMemory:
		return false
	case c.LocalOnly:
		return p.isLocal(gid)
	}
	return true
}

// tells reports whether an endpoint's address names one of its n paths.
func (c *AddressVectorConfig) tells(p *fabricPath, n int) bool {
	return n == 1 || !c.NoSharedMemory || p.scheme != sharedMemory
}

// isLocal reports whether gid, of an address on the path, is this host's.
func (p *fabricPath) isLocal(gid device.GID) bool {
	return p.gid == gid || p.scheme == sharedMemory && p.dev.Reaches(gid)
}

// isLocal reports whether an address is of this host.
func (f *Fabric) isLocal(a Address) bool {
	for i := range f.paths {
		for _, x := range a.paths {
			if p := &f.paths[i]; x.scheme == p.scheme && p.isLocal(x.raw.GID()) {
				return true
			}
		}
	}
	return false
}

package script

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/wire"
)

// gone fills the memory of a region that is closed, so that late writes are found.
const gone = 0xdd

// Region is a memory region of the domain of the endpoint under test.
type Region struct {
	*mr.Region
	Name   string
	Closed bool
	// Local is set on memory that RDMA of others does not reach.
	Local bool
}

// Rights are what an application may allow with a region.
type Rights struct{ Send, Recv, RemoteRead, RemoteWrite bool }

// split returns the rights by the names of the device and of the table of regions:
// the device must let others read what messages come from.
func (a Rights) split() (dev device.Access, table mr.Access) {
	if a.Send {
		dev, table = dev|device.RemoteRead, table|mr.Send
	}
	if a.Recv || a.RemoteWrite {
		dev, table = dev|device.LocalWrite, table|device.LocalWrite
	}
	if a.RemoteWrite {
		dev, table = dev|device.RemoteWrite, table|device.RemoteWrite
	}
	if a.RemoteRead {
		dev, table = dev|device.RemoteRead, table|device.RemoteRead
	}
	return dev, table
}

// Register makes a region of n bytes. Keys count from 1, addresses from 1<<40 in
// pages. local memory is reached by emulated accesses alone.
func (r *Rig) Register(name string, n int, a Rights, local bool) (*Region, error) {
	dev, table := a.split()
	m, err := r.dev.regions.Add(nic.Memory{Bytes: make([]byte, n), Access: dev, Local: local})
	if err != nil {
		return nil, err
	}
	x := &Region{Region: r.Regions.Add(m, table), Name: name, Local: local}
	x.OnIdle = func() { r.closeRegion(x) }
	r.regions = append(r.regions, x)
	return x, nil
}

// CloseRegion closes a region as a domain does: it is no longer found, the
// operations that use it end, and then the device drops it.
func (r *Rig) CloseRegion(x *Region) {
	x.Retire()
	r.control(func() {
		if r.Pool != nil {
			r.Pool.Revoke(x.Region) // and its endpoint
			return
		}
		r.EP.Revoke(x.Region)
	})
}

func (r *Rig) closeRegion(x *Region) {
	if err := x.Device().Close(); err != nil {
		r.QP.fault("region %s: %v", x.Name, err)
	}
	x.Closed = true
	for i := range x.Bytes() {
		x.Bytes()[i] = gone
	}
	r.log("%s closed", x.Name)
}

// Region finds a region of ours by name, nil if there is none.
func (r *Rig) Region(name string) *Region {
	for _, x := range r.regions {
		if x.Name == name {
			return x
		}
	}
	return nil
}

// Leaks returns the errors in the regions' state when all operations have ended.
func (r *Rig) Leaks() (wrong []string) {
	for _, x := range r.regions {
		if n := x.Users(); n != 0 {
			wrong = append(wrong, fmt.Sprintf("region %s has %d users", x.Name, n))
		}
		for i, b := range x.Bytes() {
			if x.Closed && b != gone {
				wrong = append(wrong, fmt.Sprintf("byte %d of region %s was written after its close", i, x.Name))
				break
			}
		}
	}
	return wrong
}

// Shared is memory of a remote endpoint with a name.
type Shared struct {
	Memory
	Name string
	// Local is set in memory that RDMA does not reach.
	Local bool
}

// Key64 is the key's form on the wire.
func (m *Shared) Key64() uint64 {
	if m.Local {
		return m.Key | mr.EmulatedOnly
	}
	return m.Key
}

// Share gives a remote endpoint memory of n bytes, whose keys count from 0x51 and
// whose addresses from 1<<24.
func (r *Rig) Share(x *Remote, name string, n int, local bool) *Shared {
	i := len(r.shared)
	m := &Shared{Name: name, Local: local, Memory: Memory{
		GID: x.Addr.GID(), QPN: x.Addr.QPN(), Addr: uint64(i+1) << 24, Key: uint64(0x51 + i), Bytes: make([]byte, n),
	}}
	r.shared = append(r.shared, m)
	if !local {
		r.QP.AddMemory(&m.Memory)
	}
	return m
}

// Shared finds memory of a remote endpoint by name, nil if there is none.
func (r *Rig) Shared(name string) *Shared {
	for _, m := range r.shared {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// where names a piece of memory: NAME+OFFSET:BYTES.
func (r *Rig) where(e wire.RMAIOV) string {
	for _, m := range r.regions {
		if m.Key(0)&^mr.EmulatedRead == e.Key && e.Addr-m.Addr(0) < 1<<24 {
			return fmt.Sprintf("%s+%d:%d", m.Name, e.Addr-m.Addr(0), e.Len)
		}
	}
	for _, m := range r.shared {
		if m.Key64() == e.Key && e.Addr-m.Addr < 1<<24 {
			return fmt.Sprintf("%s+%d:%d", m.Name, e.Addr-m.Addr, e.Len)
		}
	}
	return fmt.Sprintf("0x%x+%d@%d", e.Addr, e.Len, e.Key)
}

// place is where's inverse.
func (r *Rig) place(name string, off, n uint64) (wire.RMAIOV, error) {
	if m := r.Region(name); m != nil {
		return wire.RMAIOV{Addr: m.Addr(0) + off, Len: n, Key: m.Key(0)}, nil
	}
	if m := r.Shared(name); m != nil {
		return wire.RMAIOV{Addr: m.Addr + off, Len: n, Key: m.Key64()}, nil
	}
	return wire.RMAIOV{}, fmt.Errorf("script: no memory %s", name)
}

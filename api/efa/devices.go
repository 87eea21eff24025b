package efa

import (
	"fmt"
	"slices"
	"strings"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/sysfs"
)

// GID is the address of a device in its network: 16 bytes.
type GID = device.GID

// NIC is what the system says of an EFA device: its names, the PCI function and the NUMA
// node that it is attached to, its link.
type NIC = sysfs.NIC

// Hints say which devices are wanted. The zero Hints want all but sim.
type Hints struct {
	Driver string // "efa", "shm", "tcp", or "sim", which is listed only if it is asked for
	Name   string // the one device of this DeviceInfo.Name, or NIC.Name
	// Usable leaves out what cannot be opened now.
	Usable bool
	// Local wants devices that stay on this host, Remote such that leave it.
	Local, Remote bool
	// RDMARead and RDMAWrite want devices that do so by themselves.
	RDMARead, RDMAWrite bool
	// MinMTU is the least size of a packet, in bytes.
	MinMTU int

	// TCP is how the device tcp would be opened.
	TCP TCPConfig
	// Sysfs is where the system lists its EFA devices; "": the environment's SYSFS_PATH, or
	// /sys.
	Sysfs string
}

// DeviceInfo describes a device that is there (fi_info). It is a value: Clone copies all of
// it.
type DeviceInfo struct {
	Name   string // for OpenDevice
	Driver string // "efa", "shm", "tcp", "sim"
	// Err is why the device cannot be used now, and in one line what to do about it; nil:
	// it can.
	Err    error
	Remote bool  // carries to other hosts
	GIDs   []GID // its addresses
	// Limits are what a Domain on it grants. Of a device that cannot be opened they are
	// zero, since nobody knows them.
	Limits Limits
	NIC    *NIC // nil: the device is software, or a card of which the system does not say enough, see Err
}

// Clone is a copy that shares nothing with d but Err.
func (d DeviceInfo) Clone() DeviceInfo {
	d.GIDs = slices.Clone(d.GIDs)
	if d.NIC != nil {
		n := d.NIC.Clone()
		d.NIC = &n
	}
	return d
}

// String is a line for a log.
func (d DeviceInfo) String() string {
	var b strings.Builder
	b.WriteString(d.Name)
	if n := d.NIC; n != nil {
		fmt.Fprintf(&b, ", PCI %s (%04x:%04x)", n.PCI, n.VendorID, n.DeviceID)
		if n.NUMANode != sysfs.Unknown {
			fmt.Fprintf(&b, ", NUMA node %d", n.NUMANode)
		}
		if n.LinkSpeed != 0 {
			fmt.Fprintf(&b, ", %g Gb/s", float64(n.LinkSpeed)/1e9)
		}
	}
	if d.Err != nil {
		return b.String() + ": not usable: " + d.Err.Error()
	}
	fmt.Fprintf(&b, ", MTU %d", d.Limits.MTU)
	return b.String()
}

// Devices lists the devices of this host that are as the hints want them (fi_getinfo). Best
// first: EFA devices, those with an active port before others, then those on the NUMA
// node that this process runs on, then by link speed and name; then shm, tcp and sim;
// last those that cannot be used, with the reason. Their names are for [OpenDevice] and
// Config.DeviceName.
//
// EFA devices are found in /sys. Each device is opened for a moment, to learn its limits;
// none is left open. ErrNoData means that no device is as the hints want it, and says why.
// A Driver that does not exist is ErrInvalid.
func Devices(h Hints) (_ []DeviceInfo, err error) {
	defer formed("devices", &err)
	host := sysfs.Host{Root: h.Sysfs}
	d := discovery{hints: h, host: host, query: queryEFA, memory: endpointMemory, memlock: host.Memlock}
	return d.run()
}

package sysfs

import (
	"cmp"
	"slices"

	"github.com/efactor/efactor/actors/device"
)

// Unknown is the NUMA node of which nothing is known.
const Unknown = -1

// NIC is an EFA device, as the kernel describes it.
type NIC struct {
	Name         string       // of the RDMA device: "rdmap0s6". Rules of udev change it
	Uverbs       string       // the file that opens it: "/dev/infiniband/uverbs0"
	Major, Minor uint32       // the numbers of that file
	GIDs         []device.GID // its addresses; EFA has one
	Active       bool         // the port is up

	PCI      string // address of the function: "0000:00:06.0"
	VendorID uint16 // 0x1d0f, Amazon
	DeviceID uint16 // 0xefa0 and so on: the generation
	NUMANode int    // that it is attached to, or Unknown

	LinkSpeed int64  // bits a second of the port; 0: unknown. Linux before 6.8 says 100 Gb/s for all
	Firmware  string // version; "": sysfs does not say, which is so of EFA until it is queried

	// Odd lists the files that say what cannot be. What they describe is unknown.
	Odd []string
}

// Query opens a device and asks it for what sysfs does not know: the MTU, the depths of
// queues, RDMA. It may fill in the Firmware. The driver has one.
type Query func(*NIC) (device.Info, error)

// Clone is a copy that shares nothing with n.
func (n *NIC) Clone() NIC {
	c := *n
	c.GIDs, c.Odd = slices.Clone(n.GIDs), slices.Clone(n.Odd)
	return c
}

// Sort puts the best first: active ports, then those on the NUMA node near (Unknown: it
// does not matter), then by link speed, the fastest first, then by name.
func Sort(nics []NIC, near int) {
	slices.SortStableFunc(nics, func(a, b NIC) int {
		return cmp.Or(
			first(a.Active, b.Active),
			first(near != Unknown && a.NUMANode == near, near != Unknown && b.NUMANode == near),
			cmp.Compare(b.LinkSpeed, a.LinkSpeed),
			cmp.Compare(a.Name, b.Name),
		)
	})
}

// first orders what is true before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

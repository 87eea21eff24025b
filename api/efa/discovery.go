package efa

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/uverbs/sysfs"
)

// Memory in bytes that a process must be allowed to lock before a card is opened.
const (
	// endpointMemory is about what an endpoint with the default settings locks: a packet
	// for each place of its queues, and its block for reads into plain memory. A card that is asked
	// for by name opens with that, and later a region that is too much is an error.
	endpointMemory = (256+256)*(9<<10) + 1<<20
	// autoMemory is what auto wants in addition to that for regions: 8 MiB, which many
	// kernels allow everybody, are for an endpoint alone, and would make calls fail that
	// work without a card.
	autoMemory = 64 << 20
)

// discovery makes the list of Devices.
type discovery struct {
	hints Hints
	host  sysfs.Host
	query sysfs.Query

	memory  uint64 // that must be lockable
	memlock func(need uint64) error

	list []DeviceInfo
	why  error // for which there is no EFA device
}

func (d *discovery) run() ([]DeviceInfo, error) {
	for _, s := range []struct {
		driver string
		find   func()
	}{
		{"efa", d.nics},
		{"shm", func() { d.software("shm", false, func() (Device, error) { return shm.Open(shm.Config{}) }) }},
		{"tcp", func() {
			t := &d.hints.TCP
			d.software("tcp", !t.private(), func() (Device, error) { return openTCP(t, slog.New(slog.DiscardHandler)) })
		}},
		{"sim", func() { d.software("sim", false, openSim) }},
	} {
		if d.hints.Driver == s.driver || d.hints.Driver == "" && s.driver != "sim" {
			s.find()
		}
	}
	switch d.hints.Driver {
	case "", "efa", "shm", "tcp", "sim":
	default:
		return nil, fmt.Errorf("%w: driver %q: want efa, shm, tcp or sim", ErrInvalid, d.hints.Driver)
	}
	slices.SortStableFunc(d.list, func(a, b DeviceInfo) int { return usable(b) - usable(a) })
	return d.choose()
}

func usable(d DeviceInfo) int {
	if d.Err == nil {
		return 1
	}
	return 0
}

// choose keeps what the hints want.
func (d *discovery) choose() ([]DeviceInfo, error) {
	var fit []DeviceInfo
	var lacks []string
	for _, i := range d.list {
		if lack := d.hints.lacks(&i); lack != "" {
			lacks = append(lacks, i.Name+" "+lack)
			continue
		}
		fit = append(fit, i)
	}
	switch {
	case len(fit) > 0:
		return fit, nil
	case len(lacks) > 0:
		return nil, fmt.Errorf("%w: %s", ErrNoData, strings.Join(lacks, "; "))
	}
	return nil, fmt.Errorf("%w: %w", ErrNoData, d.why)
}

// lacks says what a device is not that the hints want; "": nothing.
func (h *Hints) lacks(d *DeviceInfo) string {
	l := &d.Limits
	switch {
	case h.Name != "" && h.Name != d.Name && (d.NIC == nil || h.Name != d.NIC.Name):
		return fmt.Sprintf("is not %q", h.Name)
	case h.Usable && d.Err != nil:
		return "is not usable: " + d.Err.Error()
	case h.Local && d.Remote:
		return "leaves this host"
	case h.Remote && !d.Remote:
		return "does not leave this host"
	case d.Err != nil && (h.RDMARead || h.RDMAWrite || h.MinMTU > 0): // nobody knows its limits
		return "is not usable: " + d.Err.Error()
	case h.RDMARead && !l.RDMARead:
		return "has no RDMA read"
	case h.RDMAWrite && !l.RDMAWrite:
		return "has no RDMA write"
	case l.MTU < h.MinMTU:
		return fmt.Sprintf("has packets of %d bytes, %d are wanted", l.MTU, h.MinMTU)
	}
	return ""
}

// software adds a device that needs no hardware.
func (d *discovery) software(driver string, remote bool, open func() (Device, error)) {
	info := DeviceInfo{Name: driver, Driver: driver, Remote: remote}
	dev, err := open()
	if err == nil {
		i := dev.Info()
		if info.set(i); driver != "sim" { // whose name OpenDevice does not know
			info.Name = i.Name
		}
		err = dev.Close()
	}
	info.Err = err
	d.list = append(d.list, info)
}

// set takes over what an open device says.
func (d *DeviceInfo) set(i device.Info) {
	d.GIDs, d.Limits = []GID{i.GID}, limitsOf(i)
}

// nics adds the EFA devices.
func (d *discovery) nics() {
	found, err := d.host.List()
	if err != nil {
		d.list = append(d.list, DeviceInfo{Name: "efa", Driver: "efa", Remote: true, Err: err})
		return
	}
	d.why = found.Err()
	for i := range found.NICs {
		n := &found.NICs[i]
		info := DeviceInfo{Name: "efa:" + n.Name, Driver: "efa", Remote: true, GIDs: slices.Clone(n.GIDs), NIC: n}
		info.Err = d.ask(&info)
		d.list = append(d.list, info)
	}
	for _, s := range found.Skipped {
		d.list = append(d.list, DeviceInfo{Name: "efa:" + s.Name, Driver: "efa", Remote: true, Err: s.Why})
	}
}

// ask opens a device, if it can, for its limits.
func (d *discovery) ask(info *DeviceInfo) error {
	n := info.NIC
	if err := d.host.Try(n); err != nil {
		return err
	}
	if err := d.memlock(d.memory); err != nil {
		return err
	}
	i, err := d.query(n)
	if err != nil {
		return n.Explain(err)
	}
	info.set(i)
	info.Limits.Device = info.Name
	return nil
}

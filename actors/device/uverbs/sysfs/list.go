package sysfs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

const (
	verbsClass = "class/infiniband_verbs"
	ibClass    = "class/infiniband"
	pciDevices = "bus/pci/devices"
	driverName = "efa"
)

// Host is where devices are looked for. The zero Host is this one.
type Host struct {
	Root string // of sysfs; "": the environment's SYSFS_PATH, as rdma-core has it, or /sys
	Dev  string // folder of the device files; "": /dev/infiniband
}

// Found is what a host has.
type Found struct {
	NICs    []NIC     // in the order of Sort
	Skipped []Skipped // EFA devices that cannot be used
}

// Skipped is an EFA device that is not listed, and why.
type Skipped struct {
	Name string
	Why  error // a Refusal
}

// Where is the root of sysfs.
func (h Host) Where() string {
	if h.Root != "" {
		return h.Root
	}
	if s := os.Getenv("SYSFS_PATH"); s != "" && os.Getuid() == os.Geteuid() {
		return s
	}
	return "/sys"
}

func (h Host) dev() string {
	if h.Dev != "" {
		return h.Dev
	}
	return "/dev/infiniband"
}

// List lists the EFA devices, the best first as Sort has it for the NUMA node of this
// process. A host without any is no error: [Found.Err] says what to do about it. An error
// is a Refusal of all devices.
func (h Host) List() (Found, error) {
	root, err := os.OpenRoot(h.Where())
	if errors.Is(err, fs.ErrNotExist) {
		return Found{}, nil
	}
	if err != nil {
		return Found{}, &Refusal{Device: h.Where(), What: cause(err), Do: "sysfs must be readable", Err: ErrNoDevice}
	}
	defer root.Close()
	l := lister{tree: tree{root}, dev: h.dev()}
	if err := l.list(); err != nil {
		return Found{}, err
	}
	Sort(l.found.NICs, l.near())
	return l.found, nil
}

// lister makes a list.
type lister struct {
	tree
	dev   string
	found Found
	seen  []string // RDMA devices and PCI functions that were looked at
}

func (l *lister) list() error {
	verbs, err := l.names(verbsClass, maxDevices)
	if err != nil {
		return &Refusal{Device: verbsClass, What: cause(err), Do: "sysfs must be readable", Err: ErrNoDevice}
	}
	slices.Sort(verbs)
	for _, v := range verbs {
		if isUverbs(v) {
			l.uverbs(v)
		}
	}
	if len(l.found.NICs) > 0 {
		if err := l.coreVersion(); err != nil {
			return err
		}
	}
	l.closed()
	l.driverless()
	return nil
}

// coreVersion refuses a kernel whose uverbs are not those that this module speaks.
func (l *lister) coreVersion() error {
	s, err := l.text(verbsClass + "/abi_version")
	if err != nil {
		return tooOld(verbsClass, cause(err))
	}
	if n, err := number(s, 0, 1<<16); err != nil || n != abi.CoreVersion {
		return tooOld(verbsClass, fmt.Sprintf("uverbs has ABI version %q, want %d", short(s), abi.CoreVersion))
	}
	return nil
}

// uverbs looks at one device that can be opened.
func (l *lister) uverbs(v string) {
	at := verbsClass + "/" + v
	name, err := l.text(at + "/ibdev")
	if err == nil && !isName(name) {
		err = fmt.Errorf("%s/ibdev: %w: %q is no name", at, errOdd, short(name))
	}
	if err != nil {
		// Whose it is shows its own link to the PCI function.
		if pci := at + "/device"; l.isEFA(pci) {
			l.function(pci)
			l.skip(v, err)
		}
		return
	}
	pci := ibClass + "/" + name + "/device"
	if !l.isEFA(pci) {
		return
	}
	l.function(pci)
	if slices.Contains(l.seen, name) {
		l.skip(v, fmt.Errorf("%s/ibdev: %w: %s is another's device", at, errOdd, name))
		return
	}
	l.seen = append(l.seen, name)
	n := NIC{Name: name, Uverbs: path.Join(l.dev, v), NUMANode: Unknown}
	if err := l.fill(&n, at); err != nil {
		l.skip(name, err)
		return
	}
	l.found.NICs = append(l.found.NICs, n)
}

// isEFA reports whether a PCI function is an EFA device: by its driver, or by its ids.
// A driver's name tells of ids that are newer than this module.
func (l *lister) isEFA(pci string) bool {
	if d, err := l.target(pci + "/driver"); err == nil && d == driverName {
		return true
	}
	vendor, err := l.id(pci + "/vendor")
	if err != nil || vendor != abi.VendorAmazon {
		return false
	}
	id, err := l.id(pci + "/device")
	return err == nil && id >= 0xefa0 && id <= 0xefaf
}

func (l *lister) id(name string) (uint16, error) {
	s, err := l.text(name)
	if err != nil {
		return 0, err
	}
	n, err := id16(s)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return n, nil
}

func (l *lister) skip(name string, err error) {
	var r *Refusal
	if !errors.As(err, &r) {
		r = &Refusal{Device: name, What: cause(err), Do: "sysfs does not describe it as Linux does; it is not used", Err: ErrNoDevice}
	}
	l.found.Skipped = append(l.found.Skipped, Skipped{name, r})
}

// function notes the PCI function that a link leads to. It reports whether that is new.
func (l *lister) function(link string) bool {
	pci, err := l.target(link)
	if err != nil || slices.Contains(l.seen, pci) {
		return err != nil
	}
	l.seen = append(l.seen, pci)
	return true
}

// closed looks for EFA devices that have no uverbs device.
func (l *lister) closed() {
	names, err := l.names(ibClass, maxDevices)
	if err != nil {
		return // the devices that were found stay
	}
	slices.Sort(names)
	for _, name := range names {
		if !isName(name) || slices.Contains(l.seen, name) {
			continue
		}
		if at := ibClass + "/" + name + "/device"; l.isEFA(at) && l.function(at) {
			l.skip(name, &Refusal{
				Device: name, What: "programs have no way to it", Do: "load the module ib_uverbs (modprobe ib_uverbs)", Err: ErrNoDevice,
			})
		}
	}
}

// driverless looks for cards that no driver has taken.
func (l *lister) driverless() {
	functions, err := l.names(pciDevices, maxPCI)
	if err != nil {
		return
	}
	slices.Sort(functions)
	for _, f := range functions {
		if at := pciDevices + "/" + f; !slices.Contains(l.seen, f) && isPCI(f) && l.isEFA(at) {
			if _, err := l.Lstat(at + "/driver"); err == nil {
				continue // its RDMA device has been told of
			}
			l.skip(f, &Refusal{
				Device: f, What: "an EFA card without a driver", Do: "load the module efa (modprobe efa), or install Amazon's", Err: ErrNoDevice,
			})
		}
	}
}

// fill reads what sysfs says of n, whose uverbs device is at.
func (l *lister) fill(n *NIC, at string) error {
	s, err := l.text(at + "/abi_version")
	if err != nil {
		return err
	}
	if v, err := number(s, 0, 1<<16); err != nil || v != abi.DriverVersion {
		return tooOld(n.Name, fmt.Sprintf("the module efa has ABI version %q, want %d", short(s), abi.DriverVersion))
	}
	if s, err = l.text(at + "/dev"); err != nil {
		return err
	}
	if n.Major, n.Minor, err = devNumbers(s); err != nil {
		return fmt.Errorf("%s/dev: %w", at, err)
	}
	if err := l.fillPCI(n, ibClass+"/"+n.Name+"/device"); err != nil {
		return err
	}
	return l.fillPort(n, ibClass+"/"+n.Name)
}

func (l *lister) fillPCI(n *NIC, at string) error {
	var err error
	if n.PCI, err = l.target(at); err != nil {
		return err
	}
	if !isPCI(n.PCI) {
		return fmt.Errorf("%s: %w: %q is no PCI address", at, errOdd, short(n.PCI))
	}
	if n.VendorID, err = l.id(at + "/vendor"); err != nil {
		return err
	}
	if n.DeviceID, err = l.id(at + "/device"); err != nil {
		return err
	}
	n.maybe(l.tree, at+"/numa_node", func(s string) (err error) {
		v, err := number(s, Unknown, 1<<16)
		if err == nil {
			n.NUMANode = v
		}
		return err
	})
	return nil
}

func (l *lister) fillPort(n *NIC, at string) error {
	port := fmt.Sprintf("%s/ports/%d", at, abi.PortNumber)
	s, err := l.text(port + "/gids/0")
	if err != nil {
		return err
	}
	g, err := gid(s)
	if err != nil {
		return fmt.Errorf("%s/gids/0: %w", port, err)
	}
	if g == (device.GID{}) {
		return fmt.Errorf("%s/gids/0: %w: the device has no address", port, errOdd)
	}
	n.GIDs = []device.GID{g}
	n.maybe(l.tree, port+"/state", func(s string) error {
		code, _, _ := strings.Cut(s, ":")
		v, err := number(code, 0, 1<<8)
		n.Active = err == nil && v == abi.PortActive
		return err
	})
	n.maybe(l.tree, port+"/rate", func(s string) (err error) { n.LinkSpeed, err = rate(s); return err })
	n.maybe(l.tree, at+"/fw_ver", func(s string) error { n.Firmware = short(s); return nil })
	return nil
}

// maybe reads what a device may be without.
func (n *NIC) maybe(t tree, name string, parse func(string) error) {
	s, err := t.text(name)
	if err == nil {
		if err = parse(s); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errEmpty) {
		n.Odd = append(n.Odd, cause(err))
	}
}

const nodes = "devices/system/node"

// near is the NUMA node that all CPUs of this process lie on, or Unknown.
func (l *lister) near() int {
	mine := cpus()
	names, err := l.names(nodes, maxDevices)
	if err != nil || len(mine) == 0 {
		return Unknown
	}
	found := Unknown
	for _, name := range names {
		digits, ok := strings.CutPrefix(name, "node")
		if !ok {
			continue
		}
		id, err := number(digits, 0, 1<<16)
		if err != nil {
			continue
		}
		s, err := l.text(nodes + "/" + name + "/cpulist")
		if err != nil || !anyOf(mine, s) {
			continue
		}
		if found != Unknown {
			return Unknown // on several
		}
		found = id
	}
	return found
}

// anyOf reports whether one of the CPUs is in a list such as "0-3,8". What is not
// understood holds none.
func anyOf(cpus []int, list string) bool {
	for part := range strings.SplitSeq(list, ",") {
		from, to, ok := strings.Cut(part, "-")
		if !ok {
			to = from
		}
		a, err1 := number(from, 0, 1<<20)
		b, err2 := number(to, 0, 1<<20)
		if err1 != nil || err2 != nil {
			continue
		}
		for _, c := range cpus {
			if a <= c && c <= b {
				return true
			}
		}
	}
	return false
}

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

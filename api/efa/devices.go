package efa

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/multi"
	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/tcp"
	"github.com/efactor/efactor/actors/device/uverbs"
	"github.com/efactor/efactor/actors/device/uverbs/sysfs"
	"github.com/efactor/efactor/api/internal/errtext"
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

func (d *discovery) run() ([]DeviceInfo, error) {
	for _, s := range []struct {
		driver string
		find   func()
	}{
		{"efa", d.nics},
		{"shm", func() { d.software("shm", false, func() (Device, error) { return shm.Open(shm.Config{}) }) }},
		{"tcp", func() {
			t := &d.hints.TCP
			d.software("tcp", !t.private(), func() (Device, error) { return t.open(slog.New(slog.DiscardHandler)) })
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

// OpenDevice opens a device by name:
//
//	shm          shared memory between processes of one user on this host
//	shm:DIR      the same, meeting in the directory DIR
//	tcp          sockets between processes of one user on this host (or as Config.TCP says)
//	tcp:IP       sockets between hosts, this one known by the address IP
//	efa          the best EFA device of this host
//	efa:NAME     the one of that name, as [Devices] lists them: efa:rdmap0s6
//	efa:A+B      those of these names, joined: see [JoinDevices]
//	auto         the best for each peer: shm on this host, EFA for those that have it, tcp otherwise
//	auto:IP      the same, this host known by the address IP
//	sim          a simulated fabric inside this process, one port of it
//
// Options may follow shm or shm:DIR, in any order: shm:DIR?host=a?files. The directory has no
// question mark in its name then.
//
//	?host=NAME   an address as if the device were on a host of that name: who meets in a
//	             directory need not have one GID
//	?files       memory is in the directory's files, for processes of several containers that
//	             share it but not their process numbers. A process of the same user can cut a
//	             file. Without this option memory is sealed, and found by the numbers.
//
// An IP that is not loopback needs credentials, so it works with [Open] and its
// Config.TCP only. What auto has found, and what not, Open tells its Logger and
// Fabric.Devices; here the device's name alone says it.
func OpenDevice(name string) (_ Device, err error) {
	defer formed("open device", &err)
	dev, _, err := (&Config{DeviceName: name}).open(defaultLog())
	return dev, err
}

// JoinDevices makes one device of several, best first: an endpoint on it has a path on
// each, and the peer's address decides which is used. The devices are its own from then
// on.
//
// Of several devices of one kind, such as the EFA cards of a host, the first leads to the
// first of the peer's, and carries the messages; reads and writes of a region by RDMA, from
// 256 KiB on and without data, are divided among as many as both have, the second of one
// with the second of the other and so on. They must be of one model.
func JoinDevices(devs ...Device) (_ Device, err error) {
	defer formed("join devices", &err)
	d, err := multi.Open(devs...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return d, nil
}

// DeviceChoice is a device that was opened, or that was not, and why.
type DeviceChoice struct {
	Name string
	Used bool
	Why  string
}

// String is for a log.
func (c DeviceChoice) String() string {
	if c.Used {
		return c.Name + ": " + c.Why
	}
	return c.Name + ": not used: " + c.Why
}

// open opens the device that DeviceName names.
func (cfg *Config) open(log *slog.Logger) (Device, []DeviceChoice, error) {
	name := cfg.DeviceName
	path, options, hasOptions := strings.Cut(name, "?")
	driver, arg, hasArg := strings.Cut(path, ":")
	var dev Device
	var err error
	switch {
	case driver == "" || driver == "shm":
		c := shm.Config{Dir: arg, Logger: log}
		if hasOptions {
			err = shmOptions(&c, options)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%w: device %q: %w", ErrInvalid, name, err)
		}
		dev, err = shm.Open(c)
	case hasOptions:
		return nil, nil, fmt.Errorf("%w: device %q: options behind a question mark are for shm", ErrInvalid, name)
	case driver == "sim":
		dev, err = openSim()
	case (driver == "tcp" || driver == "auto") && hasArg:
		addr, bad := netip.ParseAddr(arg)
		if bad != nil {
			return nil, nil, fmt.Errorf("%w: device %q: %w", ErrInvalid, name, bad)
		}
		with := *cfg
		with.DeviceName, with.TCP.Addr = driver, addr
		return with.open(log)
	case driver == "efa":
		return openCards(arg, log)
	case driver == "tcp":
		dev, err = cfg.TCP.open(log)
	case driver == "auto":
		return newChooser(cfg, log).open()
	default:
		return nil, nil, fmt.Errorf("%w: device %q: want shm, shm:DIR, either with options such as ?host=NAME, efa, efa:NAME, efa:A+B, tcp, tcp:IP, auto, auto:IP or sim",
			ErrInvalid, name)
	}
	if err != nil {
		return nil, nil, err
	}
	return dev, []DeviceChoice{asked(dev)}, nil
}

func asked(d Device) DeviceChoice {
	return DeviceChoice{Name: d.Info().Name, Used: true, Why: "it was asked for by name"}
}

// shmOptions sets what the options say, which question marks separate.
func shmOptions(c *shm.Config, options string) error {
	for o := range strings.SplitSeq(options, "?") {
		key, value, hasValue := strings.Cut(o, "=")
		switch {
		case key == "host" && value != "":
			c.GID = shm.HostGID(value)
		case hasValue:
			return fmt.Errorf("unknown option %q", o)
		case key == "files":
			c.Files = true
		default:
			return fmt.Errorf("unknown option %q", o)
		}
	}
	return nil
}

func openSim() (Device, error) {
	f, err := sim.New(sim.Config{})
	if err != nil {
		return nil, err
	}
	return f.OpenDevice(sim.DeviceConfig{})
}

// TCPConfig says how the devices "tcp" and "auto" use sockets. The zero value binds to
// the loopback interface and reaches the processes of this user on this host alone.
type TCPConfig struct {
	// Addr is the address of this host that others reach, and the endpoints' GID. The
	// zero Addr: loopback, or with a Secret, a TLS or Insecure one of the host's own, as
	// the log says. A device name with an address ("tcp:10.0.0.7") has the last word.
	Addr netip.Addr
	// Secret is shared by all processes of a job, at least 16 bytes, random: mutual TLS
	// with certificates that follow from it.
	Secret []byte
	// TLS is used instead of Secret: it needs Certificates, RootCAs and ClientCAs. Each
	// certificate must name the address that its owner states.
	TLS *tls.Config
	// Insecure allows an address other than loopback without Secret and TLS: anybody
	// who reaches it can read and change what is sent.
	Insecure bool
	// AnyLocalUser lets processes of all users of this host connect on loopback without
	// Secret and TLS. Otherwise these must be of the same user: the system is asked.
	AnyLocalUser bool
	// Timeout is how long a connection may be silent before it counts as dead; 0: the
	// PeerTimeout of its endpoint, which also takes precedence if it is shorter.
	Timeout time.Duration
}

// private reports whether the device does not leave this host.
func (c *TCPConfig) private() bool {
	return c.Addr.IsLoopback() || !c.Addr.IsValid() && c.TLS == nil && len(c.Secret) == 0 && !c.Insecure
}

// open opens the device that a configuration describes.
func (c *TCPConfig) open(log *slog.Logger) (Device, error) {
	cfg := tcp.Config{Addr: c.Addr, Timeout: c.Timeout, Insecure: c.Insecure, AnyLocalUser: c.AnyLocalUser, Logger: log}
	var err error
	if cfg.Credentials, err = c.credentials(); err != nil {
		return nil, err
	}
	if !cfg.Addr.IsValid() && (cfg.Credentials != nil || c.Insecure) {
		if cfg.Addr, err = hostAddr(); err != nil {
			return nil, err
		}
		log.Info("efa: tcp uses this host's address, since none was given", "addr", cfg.Addr)
	}
	return tcp.Open(cfg)
}

// credentials are what secures the connections; nil: nothing does.
func (c *TCPConfig) credentials() (tcp.Credentials, error) {
	switch {
	case c.TLS != nil && len(c.Secret) > 0:
		return nil, fmt.Errorf("%w: TCPConfig: both TLS and Secret", ErrInvalid)
	case c.TLS != nil:
		return tcp.Certificates(c.TLS)
	case len(c.Secret) > 0:
		return tcp.JobSecret(c.Secret)
	}
	return nil, nil
}

// hostAddr is the address that this host would be reached by: the one that it talks to
// the rest of the world from, or else its first that is not loopback's.
func hostAddr() (netip.Addr, error) {
	for _, world := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} { // for documentation: nothing is sent
		c, err := net.Dial("udp", world)
		if err != nil {
			continue
		}
		from, err := netip.ParseAddrPort(c.LocalAddr().String())
		_ = c.Close() // nothing was sent
		if err == nil && from.Addr().IsGlobalUnicast() {
			return from.Addr().Unmap(), nil
		}
	}
	addrs, err := net.InterfaceAddrs()
	for _, a := range addrs {
		if p, bad := netip.ParsePrefix(a.String()); bad == nil && p.Addr().IsGlobalUnicast() {
			return p.Addr(), nil
		}
	}
	return netip.Addr{}, errtext.Join(fmt.Errorf("%w: tcp: this host has no address but loopback's", ErrInvalid), err)
}

// openEFA opens the EFA device of a name, or if name is "" the best that can be opened.
func openEFA(name string, log *slog.Logger) (Device, error) {
	host := sysfs.Host{}
	found, err := host.List()
	if err != nil {
		return nil, err
	}
	var errs []error
	for i := range found.NICs {
		n := &found.NICs[i]
		if name != "" && name != n.Name {
			continue
		}
		if err = host.Try(n); err == nil {
			err = host.Memlock(endpointMemory)
		}
		if err == nil {
			var d Device
			if d, err = openNIC(n, log); err == nil {
				return d, nil
			}
		}
		errs = append(errs, err)
	}
	for _, s := range found.Skipped {
		if name == "" || name == s.Name {
			errs = append(errs, s.Why)
		}
	}
	switch {
	case len(errs) > 0:
		return nil, errtext.Join(errs...)
	case len(found.NICs) > 0:
		return nil, fmt.Errorf("%w: there is no EFA device %q on this host; the first is %q", ErrInvalid, name, found.NICs[0].Name)
	}
	return nil, found.Err()
}

// openCards opens the EFA devices of names that are joined by "+", or the best.
func openCards(names string, log *slog.Logger) (Device, []DeviceChoice, error) {
	var devs []Device
	var choices []DeviceChoice
	undo := func(err error) error {
		for _, d := range devs {
			err = errtext.Join(err, d.Close())
		}
		return err
	}
	for name := range strings.SplitSeq(names, "+") {
		if name == "" && names != "" {
			return nil, nil, undo(fmt.Errorf("%w: device %q: a card without a name", ErrInvalid, "efa:"+names))
		}
		d, err := openEFA(name, log)
		if err != nil {
			return nil, nil, undo(err)
		}
		devs, choices = append(devs, d), append(choices, asked(d))
		if err := alike(devs[0].Info(), d.Info()); err != nil {
			return nil, nil, undo(err)
		}
	}
	if len(devs) == 1 {
		return devs[0], choices, nil
	}
	all, err := JoinDevices(devs...)
	if err != nil {
		return nil, nil, undo(err)
	}
	return all, choices, nil
}

// alike refuses cards of which one could not do what peers expect of the other: they learn
// the abilities of the first.
func alike(a, b device.Info) error {
	if a.PartID != b.PartID || a.RDMARead != b.RDMARead || a.RDMAWrite != b.RDMAWrite {
		return fmt.Errorf("%w: %s and %s are not of one model, and cannot be joined", ErrInvalid, a.Name, b.Name)
	}
	return nil
}

// openNIC opens an EFA device.
func openNIC(n *sysfs.NIC, log *slog.Logger) (Device, error) {
	d, err := uverbs.Open(uverbs.Config{Path: n.Uverbs, Name: n.Name, Logger: log})
	if err != nil {
		return nil, n.Explain(err)
	}
	return d, nil
}

// queryEFA asks an EFA device for its limits.
func queryEFA(n *sysfs.NIC) (device.Info, error) {
	return infoOf(openNIC(n, defaultLog()))
}

// infoOf closes a device that was opened for its Info.
func infoOf(d Device, err error) (device.Info, error) {
	if err != nil {
		return device.Info{}, err
	}
	return d.Info(), d.Close()
}

// chooser opens what "auto" stands for, and writes down why.
type chooser struct {
	log     *slog.Logger
	sys     string // where the kernel lists its devices; "": /sys
	shm     func() (Device, error)
	tcp     func() (Device, error)
	private bool // tcp does not leave this host

	memlock func(need uint64) error
	card    func(*NIC) (Device, error)
	nic     Device // of EFA; nil: there is none

	devs    []Device
	choices []DeviceChoice
}

func newChooser(cfg *Config, log *slog.Logger) *chooser {
	t := &cfg.TCP
	return &chooser{
		log:     log,
		shm:     func() (Device, error) { return shm.Open(shm.Config{Logger: log}) },
		tcp:     func() (Device, error) { return t.open(log) },
		private: t.private(),
		memlock: sysfs.Host{}.Memlock,
		card:    func(n *NIC) (Device, error) { return openNIC(n, log) },
	}
}

// open opens shm, EFA and tcp, as far as they are there. There is no endpoint for all
// peers without tcp, so that one must be.
func (c *chooser) open() (Device, []DeviceChoice, error) {
	c.efa()
	if d, err := c.shm(); err != nil {
		c.not("shm", err.Error())
		c.log.Warn("efa: auto: no shared memory, tcp carries to peers on this host too", "err", err)
	} else {
		c.use(d, "for peers of this user on this host")
	}
	c.useNIC()
	d, err := c.tcp()
	if err != nil {
		return nil, nil, errtext.Join(err, c.undo())
	}
	why := "for all other peers"
	if c.private {
		why += ", on this host alone: without credentials and without an address there are no others"
	}
	c.use(d, why)
	if len(c.devs) == 1 {
		return d, c.choices, nil
	}
	all, err := JoinDevices(c.devs...)
	if err != nil {
		return nil, nil, errtext.Join(err, c.undo())
	}
	return all, c.choices, nil
}

func (c *chooser) use(d Device, why string) {
	name := d.Info().Name
	c.devs = append(c.devs, d)
	c.choices = append(c.choices, DeviceChoice{name, true, why})
	c.log.Info("efa: auto: opened", "device", name, "why", why)
}

func (c *chooser) not(name, why string) {
	c.choices = append(c.choices, DeviceChoice{name, false, why})
	c.log.Info("efa: auto: not used", "device", name, "why", why)
}

func (c *chooser) undo() error {
	var errs []error
	for _, d := range c.devs {
		errs = append(errs, d.Close())
	}
	return errtext.Join(errs...)
}

// efa looks for EFA devices and opens the best that can be.
func (c *chooser) efa() {
	d := discovery{
		host: sysfs.Host{Root: c.sys}, memory: autoMemory, memlock: c.memlock,
		query: func(n *NIC) (device.Info, error) { return infoOf(c.card(n)) },
	}
	d.nics()
	for _, i := range d.list {
		err := i.Err
		if err == nil && c.nic != nil {
			c.not(i.Name, "one EFA device is enough")
			continue
		}
		if err == nil {
			c.nic, err = c.card(i.NIC)
		}
		if err != nil {
			c.not(i.Name, err.Error())
			c.log.Warn("efa: auto: this host has an EFA device that is not used", "device", i.Name, "why", err)
		}
	}
	if len(d.list) == 0 {
		c.not("efa", "there is no EFA device in "+d.host.Where())
	}
}

// useNIC joins the EFA device. An emulated one has the GID of the shared memory that carries
// its packets: then that is the shorter way to the same peers.
func (c *chooser) useNIC() {
	d := c.nic
	if d == nil {
		return
	}
	for _, x := range c.devs {
		if x.Info().GID == d.Info().GID {
			why := "it has one GID with " + x.Info().Name
			if err := d.Close(); err != nil {
				why += ", and could not be closed: " + err.Error()
			}
			c.not(d.Info().Name, why)
			return
		}
	}
	c.use(d, "for peers that have EFA")
}

package efa

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"

	"github.com/efactor/efactor/actors/device/multi"
	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/tcp"
	"github.com/efactor/efactor/internal/errtext"
)

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
//	?plain       this process, as receiver, reads messages of 16 KiB and more from plain slices
//	             where they lie, if the kernel lets it
//	?anyreader   every process of the user may so read all memory of this one, where the Yama
//	             security module would not let it
//
// An IP that is not loopback needs credentials, so it works with [Open] and its
// Config.TCP only. What auto has found, and what not, Open tells its Logger and
// Fabric.Devices; here the device's name alone says it.
func OpenDevice(name string) (_ Device, err error) {
	defer formed("open device", &err)
	dev, _, err := openDevice(&Config{DeviceName: name}, defaultLog())
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

func openDevice(cfg *Config, log *slog.Logger) (Device, []DeviceChoice, error) {
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
		return openDevice(&with, log)
	case driver == "efa":
		return openCards(arg, log)
	case driver == "tcp":
		dev, err = openTCP(&cfg.TCP, log)
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
		case key == "plain":
			c.PlainReads = true
		case key == "anyreader":
			c.AnyReader = true
		default:
			return fmt.Errorf("unknown option %q", o)
		}
	}
	return nil
}

func asked(d Device) DeviceChoice {
	return DeviceChoice{Name: d.Info().Name, Used: true, Why: "it was asked for by name"}
}

func openSim() (Device, error) {
	f, err := sim.New(sim.Config{})
	if err != nil {
		return nil, err
	}
	return f.OpenDevice(sim.DeviceConfig{})
}

// openTCP opens the device that a configuration describes.
func openTCP(c *TCPConfig, log *slog.Logger) (Device, error) {
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
